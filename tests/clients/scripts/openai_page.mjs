// The `openai` package in a page of another origin, by a browser's rules: happy-dom sends the preflight and keeps to its answer.
// Prints one JSON line. Run in a folder that has both packages, with PRISM_URL, PRISM_KEY, PRISM_MODEL and PRISM_PAGE set; PRISM_PAGE is
// an origin that the server lets in.

import assert from "node:assert/strict";
import { subscribe } from "node:diagnostics_channel";

import { Window } from "happy-dom";
import OpenAI from "openai";
import { VERSION } from "openai/version";

const { PRISM_URL: baseURL, PRISM_KEY: apiKey, PRISM_MODEL: model, PRISM_PAGE: page } = process.env;
const question = { model, temperature: 0, max_tokens: 40, messages: [{ role: "user", content: "What is the capital of France?" }] };

const sent = [];
subscribe("http.client.request.start", ({ request }) => sent.push({ method: request.method, headers: request.getHeaders() }));

// A client whose requests are those of a page of `origin`.
function clientIn(origin) {
  const window = new Window({ url: `${origin}/` });
  const client = new OpenAI({
    baseURL,
    apiKey,
    maxRetries: 0,
    dangerouslyAllowBrowser: true,
    fetch: (url, init) => window.fetch(url, { ...init, headers: Object.fromEntries(new Headers(init.headers)) }),
  });
  return { window, client };
}

const { window, client } = clientIn(page);
const answer = await client.chat.completions.create(question);
assert.match(answer.choices[0].message.content, /Paris/);

// What the page's script may read of the answer's headers.
const raw = await client.models.list().asResponse();
assert.ok(raw.headers.get("x-request-id"));

let text = "";

for await (const chunk of await client.chat.completions.create({ ...question, stream: true })) {
  text += chunk.choices[0].delta.content ?? "";
}

assert.equal(text, answer.choices[0].message.content);

// An error is readable by the page, or it would see "network error" only.
await assert.rejects(
  () => client.chat.completions.create({ ...question, model: "no-such-model" }),
  (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found",
);

const preflight = sent.find(({ method }) => method === "OPTIONS");
assert.ok(preflight, "no preflight was sent");
assert.equal(preflight.headers.origin, page);
const asked = preflight.headers["access-control-request-headers"].split(",").map((name) => name.trim().toLowerCase());
assert.ok(["authorization", "content-type", "x-stainless-lang", "x-stainless-retry-count"].every((name) => asked.includes(name)), String(asked));
await window.happyDOM.close();

const stranger = clientIn("http://elsewhere.example");
await assert.rejects(() => stranger.client.chat.completions.create(question), OpenAI.APIConnectionError);
await stranger.window.happyDOM.close();

console.log(JSON.stringify({ client: "openai (page)", version: VERSION, answer: text, preflights: sent.filter(({ method }) => method === "OPTIONS").length, asked }));
