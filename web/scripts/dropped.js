// Files of a drop. Those in folders come with their paths, as "folder/part/name".

const MOST = 2000;

const filesIn = async (folder, paths, files) => {
  const reader = folder.createReader();
  for (;;) { // a reader gives some entries at a time
    const entries = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (!entries.length) return;
    for (const entry of entries) {
      if (entry.name.startsWith(".") || files.length >= MOST) continue;
      if (entry.isDirectory) await filesIn(entry, paths, files);
      else {
        files.push(await new Promise((resolve, reject) => { entry.file(resolve, reject); }));
        paths.push(entry.fullPath.slice(1));
      }
    }
  }
};

// Returns { files }, or { files, paths } of a folder. Begins at once: the drop's items are gone later.
export const droppedFiles = (transfer) => {
  const files = [...transfer.files];
  const folder = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).find((entry) => entry?.isDirectory);
  if (!folder) return { files };
  const found = { files: [], paths: [] };
  return filesIn(folder, found.paths, found.files).then(() => found);
};
