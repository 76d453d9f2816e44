"""The report of 10,000 nodes: seconds to write it, its size, and seconds until it can be used.

`python -m benchmarks.fleet_report [NODES]` needs chromium and chromedriver; medians of five.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from slurm_integration.fleet_report import render

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/slurm_integration/fleet_report"))
from conftest import FLAGS  # noqa: E402
from sample_fleet import fleet  # noqa: E402

TIMES = 5
LIMIT_BYTES, LIMIT_S = 8_000_000, 2.0


def main() -> int:
    """Print the figures; 1 where one is beyond its limit."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    writing, pages = [], []
    for share in (0.04, 0.5):
        sweep, racks = fleet(nodes, sick_share=share)
        started = time.monotonic()
        pages.append((share, render(sweep, racks=racks)))
        writing.append(time.monotonic() - started)
    bad = False
    for (share, page), seconds in zip(pages, writing, strict=True):
        size = len(page.encode())
        usable = statistics.median(_usable(page) for _ in range(TIMES))
        bad |= size > LIMIT_BYTES or usable > LIMIT_S
        print(
            f"{nodes} nodes, {share:.0%} not go: written in {seconds:.2f} s, "
            f"{size / 1e6:.2f} MB, usable in Chromium after {usable:.2f} s"
        )
    return int(bad)


def _usable(page: str) -> float:
    """Seconds from opening the page to a search having been typed and its answer drawn."""
    from selenium import webdriver

    folder = Path(tempfile.mkdtemp(prefix="fc-bench-"))
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
    )
    try:
        driver.get("about:blank")
        started = time.monotonic()
        driver.get(path.as_uri())
        count = driver.find_element("id", "count")
        before = count.text
        driver.execute_script(
            "const q = document.getElementById('q'); q.value = 'gpu-count';"
            "q.dispatchEvent(new Event('input'))"
        )
        while count.text == before:
            time.sleep(0.01)
        return time.monotonic() - started
    finally:
        driver.quit()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
