"""A headless Chromium for the report's tests, and the made-up fleet."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sample_fleet import fleet

from slurm_integration.fleet_report import render

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1400,1000",
)  # fmt: skip


class Browser:
    """Chromium with a page from disk in it."""

    def __init__(self, driver, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    def open(self, page: str, name: str = "report") -> None:
        path = self.folder / f"{name}.html"
        path.write_text(page, encoding="utf-8")
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())

    def js(self, code: str, *arguments):
        return self.driver.execute_script(code, *arguments)

    def texts(self, selector: str) -> list[str]:
        return self.js(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText.trim())",
            selector,
        )

    def count(self) -> str:
        return self.texts("#count")[0]

    def rows(self) -> list[str]:
        """Names of the nodes in the list's visible part."""
        return self.texts("#rows .c-n")

    def keys(self, selector: str, *keys: str) -> None:
        self.driver.find_element("css selector", selector).send_keys(*keys)

    def errors(self) -> list:
        return self.driver.get_log("browser")

    def media(self, **features: str) -> None:
        listed = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})

    def screen(self, width: int, height: int) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def reset(self) -> None:
        self.media()
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    binary, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (binary and chromedriver):
        if os.environ.get("CI"):
            pytest.fail("chromium and chromedriver: apt-get install chromium chromium-driver")
        pytest.skip("chromium and chromedriver: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    folder = Path(tempfile.mkdtemp(prefix="fc-report-"))
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    driver.set_page_load_timeout(60)
    try:
        yield Browser(driver, folder)
    finally:
        driver.quit()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    chromium.reset()
    yield chromium
    chromium.reset()


@pytest.fixture(scope="session")
def page_of_400() -> str:
    sweep, racks = fleet(400, sick_share=0.1)
    return render(sweep, racks=racks, title="Fleet report: atlas")
