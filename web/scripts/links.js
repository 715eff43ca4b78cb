// Links to the documentation and the source, where the page's address says which repository it is from: a site
// of GitHub Pages.

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
