// Service worker of the static site that `serve.py build` makes: it adds isolation headers where the host sends
// none, and keeps every file by its content, so that the site works offline after a visit.
//
// `site-files.js` is built with the site: SITE.files has the hash and size of each file by path. SITE.later
// lists folders whose files are kept only once they are used.
// Files are stored under their hash: unchanged files of a new version are not fetched again, versions are never
// mixed, and files that are no longer used are deleted. Responses are stored with their final headers and
// returned unmodified: only then browsers cache compiled code, WebAssembly above all.

importScripts("./site-files.js");

const CACHE = "webpte by content";
const SCOPE = new URL(self.registration.scope);
const KEPT = new URL("./by-content/", SCOPE).href; // other addresses belong to other sites of this host
const LARGEST = 512 * 2 ** 20; // larger files are neither kept nor fetched whole
const AT_ONCE = 4; // files that are fetched at the same time

const pathOf = (url) => {
  const path = decodeURIComponent(url.pathname.slice(SCOPE.pathname.length));
  return path === "" || path.endsWith("/") ? `${path}index.html` : path;
};
const hasPolicy = (path) => !path.startsWith(SITE.withoutPolicy);
const place = (path, hash) => `${KEPT}${SITE.headersHash}/${hasPolicy(path) ? "policy" : "plain"}/${hash}`;

const headersFor = (path, response) => {
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(SITE.headers)) headers.set(name, value);
  if (hasPolicy(path)) headers.set("Content-Security-Policy", SITE.policy);
  for (const [name, value] of Object.entries(SITE.headersOf[path] ?? {})) headers.set(name, value);
  return headers;
};
const withHeaders = (path, response) => {
  if (response.type === "opaqueredirect") return response; // the browser follows it and requests again
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers: headersFor(path, response) });
};

const hexDigest = async (data) => {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
};

// Keeps a file only if its hash is right: while a host is updated, it may serve files of both versions.
const keep = async (path, response, hash) => {
  try {
    const data = await response.arrayBuffer();
    if (await hexDigest(data) !== hash) return;
    const type = response.headers.get("Content-Type") ?? "application/octet-stream";
    const kept = new Response(data, { headers: { "Content-Type": type } });
    await (await caches.open(CACHE)).put(place(path, hash), withHeaders(path, kept));
  } catch (error) { // the disk is full, or the connection broke: then it is not kept
    console.warn(`not kept for offline: ${error.message}`);
  }
};

// Returns a range of a stored file; null if several ranges are requested.
const partOf = async (path, response, range) => {
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(range) ?? [];
  const blob = await response.blob();
  const end = last ? Math.min(Number(last) + 1, blob.size) : blob.size;
  if (first === undefined || Number(first) >= end) return null;
  const part = new Response(blob.slice(Number(first), end), { status: 206, statusText: "Partial Content" });
  const headers = headersFor(path, response);
  headers.set("Content-Range", `bytes ${first}-${end - 1}/${blob.size}`);
  headers.set("Content-Length", String(end - Number(first)));
  return new Response(part.body, { status: 206, statusText: "Partial Content", headers });
};

const answer = async (event, path) => {
  const { request } = event;
  const [hash, size] = SITE.files[path] ?? [];
  if (hash === undefined || size > LARGEST) return withHeaders(path, await fetch(request));
  const kept = await (await caches.open(CACHE)).match(place(path, hash));
  const range = request.headers.get("Range");
  if (kept && range) return await partOf(path, kept.clone(), range) ?? kept;
  if (kept) return kept;
  // Fetches the whole file even for a range: opening a model reads all of it anyway.
  const response = await fetch(request.url, { cache: "no-cache" });
  if (response.status === 200) event.waitUntil(keep(path, response.clone(), hash));
  return withHeaders(path, response);
};

const keepAll = async () => {
  const cache = await caches.open(CACHE);
  const here = new Set((await cache.keys()).map(({ url }) => url));
  const missing = Object.entries(SITE.files).filter(
    ([path, [hash]]) => !here.has(place(path, hash)) && !SITE.later.some((folder) => path.startsWith(folder)),
  );
  const work = async () => {
    for (let next = missing.shift(); next; next = missing.shift()) {
      const [path, [hash]] = next;
      const response = await fetch(new URL(encodeURI(path), SCOPE), { cache: "no-cache" });
      if (response.status === 200) await keep(path, response, hash);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
};

const dropOld = async () => {
  const cache = await caches.open(CACHE);
  const known = new Set(Object.entries(SITE.files).map(([path, [hash]]) => place(path, hash)));
  const old = (await cache.keys()).filter(({ url }) => url.startsWith(KEPT) && !known.has(url));
  await Promise.all(old.map((request) => cache.delete(request)));
};

self.addEventListener("activate", (event) => {
  event.waitUntil(Promise.all([self.clients.claim(), dropOld()]));
});
self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  const ours = url.origin === SCOPE.origin && url.pathname.startsWith(SCOPE.pathname);
  if (ours && event.request.method === "GET") event.respondWith(answer(event, pathOf(url)));
});
self.addEventListener("message", (event) => {
  if (event.data === "take over") self.skipWaiting();
  if (event.data === "keep all") event.waitUntil(keepAll().then(() => event.source.postMessage("all is kept"), () => {}));
});
