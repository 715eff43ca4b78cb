// The worker in which Python runs. Its first message says where Pyodide is; all others are calls.

import { startHost } from "./host.js";

let receive = null;

globalThis.onmessage = ({ data }) => {
  if (receive) receive(data);
  else receive = startHost(data, (message, transfer) => postMessage(message, transfer ?? []));
};
