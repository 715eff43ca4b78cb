// The bytes of the start. PyScript's worker fetches Python by itself, where nobody can watch; so the page
// asks for the same files first, counts what comes, and the worker finds them in the browser's cache.

const OWN = ["pyodide.asm.wasm", "pyodide.asm.mjs", "python_stdlib.zip"];

const files = async () => {
  const config = new URL(document.querySelector("script[config]").getAttribute("config"), document.baseURI);
  const { interpreter, packages, files: archives } = await (await fetch(config)).json();
  const folder = new URL(".", new URL(interpreter, config));
  const lock = await (await fetch(new URL("pyodide-lock.json", folder))).json();
  const wheels = packages.map((name) => lock.packages[name].file_name);
  return [
    ...[...OWN, ...wheels].map((name) => new URL(name, folder)),
    ...Object.keys(archives).map((name) => new URL(name, config)),
  ];
};

// Promises that all is there; `tell(done, total)` is called with bytes. What fails here is no failure of
// the start: whoever needs the file asks again, and tells.
export const countBytes = async (tell) => {
  let [done, total, open] = [0, 0, 0];
  const count = async (name) => {
    open++;
    const answer = await fetch(name);
    total += Number(answer.headers.get("Content-Length") ?? 0);
    open--;
    for (const reader = answer.body.getReader(); ;) {
      const step = await reader.read();
      if (step.done) return;
      done += step.value.byteLength;
      if (!open) tell(done, Math.max(total, done)); // before, the total is not known
    }
  };
  await Promise.allSettled((await files()).map(count));
};
