"""Tries the history's database in a process of its own. What is wrong goes to standard output.

An SQLite file that is not there yet is fine where its folder is: the first collect makes it.
"""

import os
import sys

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

CONNECT_S = 10


def trouble(url: str) -> str:
    """Why the database can't be used; "" where it can."""
    try:
        place = make_url(url)
        if place.get_backend_name() == "sqlite":
            path = place.database or ""
            if path and not os.path.exists(path):
                folder = os.path.dirname(path) or "."
                writable = os.access(folder, os.W_OK)
                return "" if writable else f"{path}: its folder is not there or can't be written"
            engine = create_engine(place)
        else:
            engine = create_engine(place, connect_args={"connect_timeout": CONNECT_S})
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    except (SQLAlchemyError, ValueError, ImportError) as error:
        # SQLAlchemy's text goes on with help; a URL or a password is never in its first line.
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return f"the database can't be used: {first}"
    return ""


if __name__ == "__main__":
    told = trouble(os.environ.get("FLIGHTCHECK_DB", ""))
    if told:
        print(told)
    sys.exit(1 if told else 0)
