// Keeps the screen on while Python works: a phone that goes dark suspends the tab, and a long answer or download
// with it. Browsers without a screen wake lock, and those that refuse it (low battery), go on without one.

const LINGER_MS = 3000; // so that calls in quick succession share one lock
let wanted = false;
let lock = null; // or the promise of one
let timer = 0;

const take = () => {
  if (!wanted || lock || document.visibilityState !== "visible" || !navigator.wakeLock) return;
  lock = navigator.wakeLock.request("screen").then(
    (held) => {
      held.addEventListener("release", () => { lock = null; }); // the browser does so when the tab is hidden
      lock = held;
      if (!wanted) held.release();
    },
    () => { lock = null; },
  );
};

export const keepAwake = (on) => {
  clearTimeout(timer);
  if (on) {
    wanted = true;
    take();
  } else {
    timer = setTimeout(() => {
      wanted = false;
      lock?.release?.(); // one that is still being asked for is released when it comes
    }, LINGER_MS);
  }
};

// The browser takes the lock away from a hidden tab.
export const watchVisibility = () => document.addEventListener("visibilitychange", take);
