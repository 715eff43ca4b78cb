// What a camera sees, by a compiled program that tells pictures apart: docs/start/camera_page.md.

import { StrictMode, useEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { open } from "webpte/run";

// Shows the camera in a <video>, and calls `show` with the scores of each picture, until `signal` ends it.
async function look(video, folder, signal, show) {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  let program = null;
  try {
    signal.throwIfAborted(); // the component left the page while its user was asked
    video.srcObject = stream;
    [program] = await Promise.all([open(folder, { signal }), video.play()]);
    while (!signal.aborted) {
      const [{ scores }] = await program.answer(video, { topK: 3 });
      show(scores);
      await new Promise(requestAnimationFrame);
    }
  } finally {
    for (const track of stream.getTracks()) track.stop();
    program?.close();
  }
}

function Camera({ folder }) {
  const video = useRef(null);
  const [scores, setScores] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    const ending = new AbortController();
    look(video.current, folder, ending.signal, setScores)
      .catch((reason) => { if (!ending.signal.aborted) setError(reason); });
    return () => ending.abort();
  }, [folder]);
  if (error) return <p role="alert">{error.name}: {error.message} {error.advice}</p>;
  return (
    <figure>
      <video ref={video} muted playsInline width="320" />
      <figcaption>
        {scores ? scores.map(({ label, score }) => <p key={label}>{label}: {Math.round(100 * score)} %</p>) : "Loading …"}
      </figcaption>
    </figure>
  );
}

const folder = new URL("model/", document.baseURI).href; // public/model: what `serve.py compile` wrote
createRoot(document.getElementById("root")).render(<StrictMode><Camera folder={folder} /></StrictMode>);
