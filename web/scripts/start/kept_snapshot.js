// The snapshot that the browser keeps for the next start: a file of its own, in the folder that a site has in the browser.
// It is of a version of the site, a version of the browser and a time zone, which Python reads once; another is replaced.

const FOLDER = "webpte start";
const NAME = "snapshot";
const FORMAT = 1;
const WORDS = 8; // of 4 bytes, before the head
const MAGIC = 0x77707473;
const SHARE = 4; // of the room that the browser gives, a snapshot takes at most this part

const folder = async (options) => (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, options);
const keyOf = (version) => [FORMAT, version, navigator.userAgent, Intl.DateTimeFormat().resolvedOptions().timeZone].join(" ");

// Returns the sum of the words; the length is a multiple of their size.
const sumOf = (bytes) => {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >>> 2);
  let [sum, at] = [0, 0];
  for (; at < words.length; at++) sum = (Math.imul(sum, 31) + words[at]) | 0;
  return sum >>> 0;
};
const padded = (length) => Math.ceil(length / 4) * 4;

// Returns the snapshot of a version of the site; null where there is none, or none that is whole.
export const keptSnapshot = async (version) => {
  try {
    const file = await (await (await folder()).getFileHandle(NAME)).getFile();
    const part = async (from, length) => new Uint8Array(await file.slice(from, from + length).arrayBuffer());
    const words = new Uint32Array((await part(0, 4 * WORDS)).buffer);
    const [magic, headSize, memorySize, filesSize, ...sums] = words;
    const ends = [4 * WORDS, padded(headSize), memorySize, padded(filesSize)];
    if (magic !== MAGIC || file.size !== ends.reduce((sum, size) => sum + size)) return null;
    const text = await part(ends[0], headSize);
    const head = JSON.parse(new TextDecoder().decode(text));
    if (head.key !== keyOf(version)) return null;
    const [memory, files] = await Promise.all([
      part(ends[0] + ends[1], memorySize),
      part(ends[0] + ends[1] + ends[2], padded(filesSize)),
    ]);
    return sums[0] === sumOf(memory) && sums[1] === sumOf(files) ? { head, memory, files } : null;
  } catch {
    return null; // there is none, or the browser allows no storage
  }
};

// Keeps a snapshot, unless another tab does or there is little room. The file is replaced as a whole, or stays as it was.
export const keepSnapshot = (version, { head, memory, files }) => navigator.locks.request(FOLDER, { ifAvailable: true }, async (lock) => {
  if (!lock) return;
  const { quota = 0, usage = 0 } = await navigator.storage.estimate();
  if (SHARE * (memory.length + files.length) > quota - usage) return;
  const text = new TextEncoder().encode(JSON.stringify({ ...head, key: keyOf(version) }));
  const all = new Uint8Array(padded(files.length));
  all.set(files);
  const words = new Uint32Array(WORDS);
  words.set([MAGIC, text.length, memory.length, files.length, sumOf(memory), sumOf(all)]);
  const writing = await (await (await folder({ create: true })).getFileHandle(NAME, { create: true })).createWritable();
  const blank = new Uint8Array(padded(text.length) - text.length);
  for (const part of [words, text, blank, memory, all]) await writing.write(part);
  await writing.close();
});

export const dropSnapshot = async () => {
  try {
    await (await folder()).removeEntry(NAME);
  } catch { /* there is none */ }
};
