// Answers of a sample before Python is there, by its compiled program. They are drawn by the module that draws the results
// of all compiled programs. Where the program cannot be opened, or fails, there are no answers, and the page waits for
// Python, which says why.

const RUNTIME = "../../runtime/";
let users = 0; // of the device, which their programs share

// Returns what makes answers of a card, or null for a card without a compiled program.
//
// show  called with an element that shows the newest answer; with nothing once there are no answers
export const makeAnswers = (card, show) => {
  if (!card?.compiled || !navigator.gpu) return null;
  const ending = new AbortController();
  const { signal } = ending;
  let program = null;
  let wanted = null; // the newest input, unless it is being answered
  let forgotten = 0; // times: an answer to an input that was taken back is not shown
  let working = null; // a promise, while inputs are answered

  users++;
  const letGo = () => {
    const device = program?.device;
    program?.close();
    users--;
    if (!users) device?.destroy(); // Python has a device of its own
  };
  const end = () => {
    if (signal.aborted) return;
    ending.abort();
    wanted = null;
    Promise.allSettled([opening, working]).then(letGo);
  };
  const fail = (error) => {
    if (signal.aborted) return;
    console.info(`no answers before Python is there: ${error.message}`);
    end();
    show();
  };

  const open = async () => {
    const place = new URL(RUNTIME + card.compiled, import.meta.url);
    // The two last ones are imported by the first, later: they come at the same time.
    const names = ["index.js", "../webpte-view.js", "../webpte-run.js", "../webpte-task.js"];
    const [compiled, { drawResults }] = await Promise.all(names.map((name) => import(new URL(name, place))));
    signal.throwIfAborted();
    program = await compiled.open({ originals: new URL(card.folder, document.baseURI), signal });
    signal.throwIfAborted();
    return drawResults;
  };
  const opening = open();
  opening.catch(fail);

  // Pictures that become smaller first have another answer than in Python.
  const fits = async (given) => {
    if (!(given instanceof Blob)) return true;
    const { input, method } = program.task;
    if (input.rule.scaled) return true;
    const picture = await createImageBitmap(given);
    const [rows, columns] = ["H", "W"].map((dim) => input.layout.indexOf(dim));
    const isHeld = program.methods[method].shapes.some(([shape]) => shape[rows] >= picture.height && shape[columns] >= picture.width);
    picture.close();
    return isHeld;
  };
  const work = async () => {
    const drawResults = await opening;
    while (wanted) {
      const [number, make] = [forgotten, wanted];
      wanted = null;
      const given = await make();
      const results = await fits(given) ? await program.answer(given) : null;
      if (number === forgotten && results) show(drawResults(results));
    }
  };

  return {
    // Answers an input; of inputs that come meanwhile, the last. `make` returns it, or a promise.
    ask: (make) => {
      if (signal.aborted) return;
      wanted = make;
      working ??= work().catch(fail).finally(() => { working = null; });
    },
    // Forgets the inputs that were given.
    forget: () => {
      forgotten++;
      wanted = null;
    },
    end,
    opened: opening.then(() => {}, () => {}), // or it cannot be
  };
};
