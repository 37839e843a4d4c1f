// The `openai` package for Node against a server: chat, streams, models, tools, errors. Prints one JSON line.
// Run in a folder that has the package, with PRISM_URL, PRISM_KEY, PRISM_MODEL and PRISM_TOOL_MODEL set.

import assert from "node:assert/strict";

import OpenAI from "openai";
import { VERSION } from "openai/version";

const { PRISM_URL: baseURL, PRISM_KEY: apiKey, PRISM_MODEL: model, PRISM_TOOL_MODEL: toolModel } = process.env;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
const question = { model, temperature: 0, max_tokens: 40, messages: [{ role: "user", content: "What is the capital of France?" }] };
const weatherQuestion = { model: toolModel, messages: [{ role: "user", content: "How warm is it in Paris?" }] };
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

async function models() {
  const names = [];

  for await (const card of client.models.list()) {
    names.push(card.id);
  }

  assert.ok(names.includes(model));
  assert.equal((await client.models.retrieve(model)).id, model);
  return names;
}

async function chat() {
  const answer = await client.chat.completions.create(question);
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.match(answer.choices[0].message.content, /Paris/);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  return answer.choices[0].message.content;
}

async function stream() {
  const chunks = [];

  for await (const chunk of await client.chat.completions.create({ ...question, stream: true })) {
    chunks.push(chunk);
  }

  assert.equal(chunks[0].choices[0].delta.role, "assistant");
  assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
  assert.ok(chunks.every((chunk) => !("usage" in chunk)));
  return chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join("");
}

async function streamWithUsage() {
  const body = { ...question, stream: true, stream_options: { include_usage: true } };
  let last;

  for await (const chunk of await client.chat.completions.create(body)) {
    last = chunk;
  }

  assert.deepEqual(last.choices, []);
  assert.ok(last.usage.completion_tokens > 0);
  return last.usage.completion_tokens;
}

async function streamHelper() {
  const events = client.chat.completions.stream(question);
  let text = "";
  events.on("content", (piece) => (text += piece));
  assert.equal(await events.finalContent(), text);
  return text;
}

async function leftStream() {
  const body = { model, max_tokens: 2000, stream: true, messages: [{ role: "user", content: "Tell a long story." }] };

  for await (const chunk of await client.chat.completions.create(body)) {
    if (chunk.choices[0].delta.content) {
      break;
    }
  }

  return chat();
}

// The package calls our function and goes on until the model answers in words.
async function runTools() {
  const asked = [];
  const runner = client.chat.completions.runTools({
    ...weatherQuestion,
    tools: [
      {
        type: "function",
        function: {
          name: "get_weather",
          description: "The weather of a city now.",
          parameters,
          parse: JSON.parse,
          function: ({ city }) => {
            asked.push(city);
            return { degrees: 21 };
          },
        },
      },
    ],
  });
  const text = await runner.finalContent();
  assert.deepEqual(asked, ["Paris"]);
  assert.equal(text, "It is 21 degrees in Paris.");
  return text;
}

async function runToolsStreamed() {
  const tool = { type: "function", function: { name: "get_weather", parameters, parse: JSON.parse, function: () => "21" } };
  const runner = client.chat.completions.runTools({ ...weatherQuestion, stream: true, tools: [tool] });
  assert.equal(await runner.finalContent(), "It is 21 degrees in Paris.");
  return runner.messages.map((message) => message.role);
}

async function errors() {
  const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
  const named = [
    [OpenAI.AuthenticationError, "invalid_api_key", () => stranger.models.list()],
    [OpenAI.NotFoundError, "model_not_found", () => client.chat.completions.create({ ...question, model: "no-such-model" })],
    [OpenAI.BadRequestError, null, () => client.chat.completions.create({ ...question, temperature: 9 })],
    [OpenAI.BadRequestError, "tools_not_supported", () => client.chat.completions.create({ ...question, tools: [{ type: "function", function: { name: "f", parameters } }] })],
  ];
  const seen = [];

  for (const [kind, code, call] of named) {
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof kind, String(error));
      assert.equal(error.code, code);
      assert.ok(error.requestID);
      seen.push(`${kind.name} ${error.status} code=${error.code} param=${error.param}`);
      return true;
    });
  }

  return seen;
}

const seen = { client: "openai (Node)", version: VERSION, node: process.version };

for (const check of [models, chat, stream, streamWithUsage, streamHelper, leftStream, runTools, runToolsStreamed, errors]) {
  seen[check.name] = await check();
}

assert.equal(new Set([seen.chat, seen.stream, seen.streamHelper, seen.leftStream]).size, 1);
console.log(JSON.stringify(seen));
