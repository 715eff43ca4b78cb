// First script of every page of the static site: registers the service worker and isolates the page.
//
// A host that cannot send the isolation headers leaves the page without shared memory, with which it
// interrupts Python, and which PyScript's worker needs. The service worker adds the headers, but only to pages loaded through it: so the
// first visit loads the page twice, before anything has run.

{
  const address = new URL("service-worker.js", document.currentScript.src);
  const RELOADED = `webpte reloaded ${address.pathname}`; // a host may have several sites
  const workers = navigator.serviceWorker;
  const page = document.documentElement;
  // A frame is as isolated as the site around it, which a reload does not change; and it keeps only what it uses.
  const framed = page.hasAttribute("data-embed");
  const needsReload = () => !crossOriginIsolated && !framed;

  // Only once: a browser that never isolates pages would reload forever.
  const reloadOnce = () => {
    if (sessionStorage.getItem(RELOADED)) return;
    sessionStorage.setItem(RELOADED, "yes");
    location.reload();
  };

  const keepAllWhenReady = (registration) => {
    const ask = () => {
      if (page.dataset.state !== "ready") return;
      watching.disconnect();
      registration.active?.postMessage("keep all");
    };
    const watching = new MutationObserver(ask);
    watching.observe(page, { attributeFilter: ["data-state"] });
    ask();
  };

  const start = async () => {
    let updating = false;
    workers.addEventListener("controllerchange", () => {
      if (updating) location.reload();
      else if (needsReload()) reloadOnce();
    });
    workers.addEventListener("message", ({ data }) => {
      if (data === "all is kept") page.dataset.offline = "ready";
    });
    // Past the browser's own cache: the list of files decides whether there is a new version.
    const registration = await workers.register(address, { updateViaCache: "none" });
    // A new version that came during the last visit: nothing of the old one has run yet.
    if (workers.controller && registration.waiting) {
      updating = true;
      registration.waiting.postMessage("take over");
    }
    registration.update().catch(() => {}); // browsers check rarely on their own; fails when offline
    await workers.ready;
    if (workers.controller && needsReload()) reloadOnce();
    if (crossOriginIsolated) sessionStorage.removeItem(RELOADED);
    if (!framed) keepAllWhenReady(registration);
  };
  // Some browsers have none in private windows; the page then reports what is missing.
  if (workers) start().catch((error) => console.warn(`no service worker: ${error.message}`));
}
