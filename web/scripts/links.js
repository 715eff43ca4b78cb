// Links to the documentation and the source, where the page's address says which repository it is from: a site
// of GitHub Pages; and in a frame of another site, to the page itself.

export const setLinks = (nav) => {
  const [owner, , host] = location.hostname.split(/\.(github)\.io$/);
  const [, name] = location.pathname.split("/");
  if (host === undefined || !name) return;
  const source = `//github.com/${owner}/${name}`;
  const [docs, code] = nav.querySelectorAll("a");
  docs.href = `${source}/tree/main/docs`;
  code.href = source;
  nav.hidden = false;
};

// Leads to the same program and inputs on the page itself; the address changes while it is used.
export const linkFullPage = (link) => {
  const set = () => { link.href = new URL(`./${location.search}${location.hash}`, document.baseURI).href; };
  set();
  for (const way of ["pointerdown", "focus"]) link.addEventListener(way, set);
};
