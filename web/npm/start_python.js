const KEEP_MS = 3000; // after the start

// Starts Pyodide, and unpacks archives of Python modules into it.
//
// indexURL  the folder of Pyodide's files
// env       environment variables of Python
// packages  names of packages in its lock file
// archives  addresses of zip archives and wheels
// onStep    called as onStep(done, total)
export async function startPython({ indexURL, env = {}, packages, archives, onStep = () => {} }) {
  let done = 0;
  const total = archives.length + 2;
  const step = (value) => {
    onStep(++done, total);
    return value;
  };
  const start = async () => {
    const { loadPyodide } = step(await import(/* @vite-ignore */ /* webpackIgnore: true */ `${indexURL}pyodide.mjs`));
    return step(await loadPyodide({ indexURL, env, packages }));
  };
  const fetched = async (address) => {
    const reply = await fetch(address);
    if (!reply.ok) throw new Error(`${address}: ${reply.status} ${reply.statusText}`);
    return step(await reply.arrayBuffer());
  };
  const [pyodide, ...contents] = await Promise.all([start(), ...archives.map(fetched)]);
  const folder = pyodide.runPython("import site; site.getsitepackages()[0]");
  for (const content of contents) pyodide.unpackArchive(content, "zip", { extractDir: folder });
  await useCompiled(pyodide, indexURL);
  return pyodide;
}

// Uses the modules that Python compiled on the last visit, and keeps those of this one: half of the time that
// it takes to import them. Only browsers have such a cache.
async function useCompiled(pyodide, indexURL) {
  if (!globalThis.caches || !globalThis.location?.origin?.startsWith("http")) return;
  const { CompiledModules } = pyodide.pyimport("boot.compiled");
  const compiled = CompiledModules(`/webpte-bytecode?${encodeURIComponent(indexURL)}`);
  await compiled.restore();
  setTimeout(() => compiled.keep_later(), KEEP_MS);
}
