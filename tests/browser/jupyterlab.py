"""A real JupyterLab for tests, with a home and settings of its own."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from book.chromium import shut_outside


@contextlib.contextmanager
def running_lab(home: Path) -> Iterator[str]:
    """Yield the address of a JupyterLab that shows the folder `home`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={home}"),
        *("--IdentityProvider.token=", "--LabApp.news_url="),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    environment = {**os.environ, "HOME": str(home), "LANG": "C.UTF-8", "MHA_LANGUAGE": "en"}
    environment.pop("MHA_STATIC", None)
    with (home / "lab.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home)
        try:
            wait_for(address, server, home / "lab.log")
            yield address
        finally:
            server.terminate()
            server.wait(timeout=30)


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 90
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/api", timeout=5).close()
            return
        except OSError:
            time.sleep(0.3)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def tall_window(browser: Browser) -> Iterator[BrowserContext]:
    """Yield a window with everything outside the machine shut."""
    # It is tall because JupyterLab draws only the cells in view.
    context = browser.new_context(viewport={"width": 1300, "height": 12_000})
    context.set_default_timeout(60_000)
    shut_outside(context)
    yield context
    context.close()


def wait_for_kernel(page: Page) -> None:
    """Wait until the notebook that is opening can be run."""
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    # Cells that are run before the kernel has answered are forgotten.
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
