// Links to the documentation and the source: as the server or the build has filled them in, or where the page's
// address says which repository it is from, a site of GitHub Pages. In a frame of another site, to the page itself.

const given = (name) => document.querySelector(`meta[name="webpte-${name}"]`)?.content ?? "";

const hostedSource = () => {
  const [owner, , host] = location.hostname.split(/\.(github)\.io$/);
  const [, name] = location.pathname.split("/");
  return host === undefined || !name ? "" : `//github.com/${owner}/${name}`;
};

export const setLinks = (nav) => {
  const source = given("source") || hostedSource();
  const docs = given("docs") || (source && `${source}/tree/main/docs`);
  [...nav.querySelectorAll("a")].forEach((link, at) => {
    const address = [docs, source][at];
    link.hidden = !address;
    if (address) link.href = address;
  });
};

// Leads to the same program and inputs on the page itself; the address changes while it is used.
export const linkFullPage = (link) => {
  const set = () => { link.href = new URL(`./${location.search}${location.hash}`, document.baseURI).href; };
  set();
  for (const way of ["pointerdown", "focus"]) link.addEventListener(way, set);
};
