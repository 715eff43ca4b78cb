// A service worker cannot start workers: webpte runs in a page of the extension.
chrome.action.onClicked.addListener(() => chrome.tabs.create({ url: "page.html" }));
