// Starts Pyodide, and unpacks archives of Python modules into it.
//
// indexURL  the folder of Pyodide's files
// packages  names of packages in its lock file
// archives  addresses of zip archives and wheels
// onStep    called as onStep(done, total)
export async function startPython({ indexURL, packages, archives, onStep = () => {} }) {
  let done = 0;
  const total = archives.length + 2;
  const step = (value) => {
    onStep(++done, total);
    return value;
  };
  const start = async () => {
    const { loadPyodide } = step(await import(/* @vite-ignore */ /* webpackIgnore: true */ `${indexURL}pyodide.mjs`));
    return step(await loadPyodide({ indexURL, packages }));
  };
  const fetched = async (address) => {
    const reply = await fetch(address);
    if (!reply.ok) throw new Error(`${address}: ${reply.status} ${reply.statusText}`);
    return step(await reply.arrayBuffer());
  };
  const [pyodide, ...contents] = await Promise.all([start(), ...archives.map(fetched)]);
  const folder = pyodide.runPython("import site; site.getsitepackages()[0]");
  for (const content of contents) pyodide.unpackArchive(content, "zip", { extractDir: folder });
  return pyodide;
}
