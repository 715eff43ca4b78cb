"""Runs jobs in a headless Chromium, with the server, the page and the sources of another tree.

    PYTHONPATH=TREE/pysrc python tests/bench/trees/run_page.py JOBS.json BROWSER.json [compiled]

BROWSER.json has `command`, the browser with its flags, and `seconds`, how long all may take. Prints
a line for each job, as figures.py does. It knows the tree's server and harness.js only. With
`compiled` the programs run compiled, by compiled_rates.js.
"""

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from webpte_host.serving import server
from webpte_host.serving.routing import Mount

# Scripts are files: the server's policy of contents forbids others.
PAGE = """<!doctype html><script type="module" src="/harness.js"></script>
<script type="module" src="run.js"></script>"""
SCRIPT = """
const post = (path, body) => fetch(path, {method: "POST", body});
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function reply(id) {
  for (;;) {
    const seen = await globalThis.watchPython(id, 1000);
    if (seen.failed) return {error: seen.failed};
    if (seen.reply) return seen.reply;
  }
}
try {
  while (!globalThis.watchPython) await sleep(50);
  await reply(0);
  for (const {code, job} of await (await fetch("jobs.json")).json()) {
    const {value, error, summary} = await reply(globalThis.startPython(code, {job}));
    const told = value ? {rates: value} : {error: summary ?? error};
    await post("/result", JSON.stringify({name: job.name, ...told}));
  }
} catch (error) {
  await post("/result", JSON.stringify({name: "page", error: String(error.stack ?? error)}));
}
await post("/done", "");
"""

COMPILED = "compiled"
_COMPILED_PAGE = """<!doctype html><link rel="icon" href="data:,">
<script type="module" src="run.js"></script>"""

ended = threading.Event()


class Handler(server.Handler):
    """The tree's handler, which also takes the page's results."""

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(204)
        self.end_headers()
        if self.path == "/done":
            ended.set()
        else:
            print(body, flush=True)


def listed(path: str) -> tuple[list[dict[str, Any]], Path]:
    """Return the jobs of a file as calls of figures.py, with their URLs, and the folder."""
    code = Path(__file__).with_name("figures.py").read_text("utf-8").partition("\nif __name__")[0]
    jobs = json.loads(Path(path).read_text("utf-8"))
    folder = Path(jobs[0]["path"]).parent.resolve()
    calls = []
    for job in jobs:
        job["path"] = f"/model/{Path(job['path']).name}"
        calls.append({"code": f"{code}\nreturn await rates_of(job['path'], job)", "job": job})
    return calls, folder


def main() -> int | str:
    calls, folder = listed(sys.argv[1])
    browser = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    html, script = PAGE, SCRIPT
    if COMPILED in sys.argv[3:]:
        rates = Path(__file__).with_name("compiled_rates.js")
        html, script = _COMPILED_PAGE, rates.read_text("utf-8")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        page, profile = Path(work, "page"), Path(work, "profile")
        page.mkdir()
        (page / "index.html").write_text(html, "utf-8")
        (page / "run.js").write_text(script, "utf-8")
        (page / "jobs.json").write_text(json.dumps(calls), "utf-8")
        server.Handler = Handler  # type: ignore[misc]
        with server.Site(mounts=[Mount("/model/", folder), Mount("/bench/", page)]) as site:
            address = site.url + "bench/index.html"
            running = subprocess.Popen(
                [*browser["command"], f"--user-data-dir={profile}", address],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            in_time = ended.wait(browser["seconds"])
            running.terminate()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
    return 0 if in_time else f"no end after {browser['seconds']} s"


if __name__ == "__main__":
    sys.exit(main())
