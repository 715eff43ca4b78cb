import * as webpte from "webpte";

const element = <Kind extends HTMLElement>(id: string) => document.getElementById(id) as Kind;
const [form, text, status, answer] = [element<HTMLFormElement>("form"), element<HTMLInputElement>("text"), element("status"), element("answer")];
let controller = new AbortController();

function tell(error: unknown): void {
  if (error instanceof webpte.WebpteError) status.textContent = `${error.name}: ${error.message} ${error.advice}`;
  else if (!controller.signal.aborted) status.textContent = String(error);
}

async function ask(client: webpte.Client, content: string): Promise<void> {
  controller = new AbortController();
  answer.textContent = "";
  const request: webpte.ChatRequest & { stream: true } = { messages: [{ role: "user", content }], stream: true };
  for await (const chunk of await client.chat.completions.create(request, { signal: controller.signal })) {
    answer.textContent += chunk.choices[0]?.delta.content ?? "";
  }
  status.textContent = "Answered.";
}

webpte.configure({ indexURL: new URL("webpte/pyodide/", document.baseURI) });
try {
  const client = await webpte.openai(new URL("model/", document.baseURI), {
    onProgress: ({ stage, done, total }) => { status.textContent = `${stage}: ${done} of ${total}`; },
  });
  form.onsubmit = (event) => {
    event.preventDefault();
    ask(client, text.value).catch(tell);
  };
  element("stop").onclick = () => controller.abort();
  form.querySelector("button")!.disabled = false;
  status.textContent = "Ready.";
} catch (error) {
  tell(error);
}
