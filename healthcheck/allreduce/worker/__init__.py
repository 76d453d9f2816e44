"""The all_reduce test's child: executed by path, by any interpreter that has torch.

It uses the standard library and torch only, so that a site's own torch serves without having
flightcheck installed, and imports its own modules relatively. It talks in JSON lines.
"""
