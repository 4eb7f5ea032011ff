// Skills through a TypeScript SDK: the result is printed as one line of JSON.
//
// Usage: node typescript_skills.mjs SETTINGS, where SETTINGS is JSON:
//   modules   the directory with the SDKs
//   sdk       "client" (2.x) or "sdk" (1.x)
//   url       of a server over HTTP, and the headers to send; else
//   command, args, env, cwd   of a server over stdio
//   file      a SKILL.md to write and delete meanwhile, and its texts `first` and `second`
//   name      the name of that skill

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";

const settings = JSON.parse(process.argv[2]);
const require = createRequire(`${settings.modules}/`);
const modern = settings.sdk === "client";

const library = modern
  ? { ...require("@modelcontextprotocol/client"), ...require("@modelcontextprotocol/client/stdio") }
  : {
      ...require("@modelcontextprotocol/sdk/client/index.js"),
      ...require("@modelcontextprotocol/sdk/client/stdio.js"),
      ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
      ...require("@modelcontextprotocol/sdk/types.js"),
    };

// Notifications of the server, in order.
const told = [];
let heard = () => {};

function listen(client) {
  const note = (notification) => {
    told.push(notification.method);
    heard();
  };
  client.fallbackNotificationHandler = async (notification) => note(notification);
}

/// Waits until all lists were reported as changed, from the `start`th notification on.
async function changed(start) {
  const wanted = ["tools", "prompts", "resources"].map((list) => `notifications/${list}/list_changed`);
  while (!wanted.every((method) => told.slice(start).includes(method))) {
    await new Promise((done) => (heard = done));
  }
}

function write(text) {
  mkdirSync(dirname(settings.file), { recursive: true });
  writeFileSync(settings.file, text);
}

const call = (client, args) =>
  modern
    ? client.callTool({ name: "skill", arguments: args })
    : client.callTool({ name: "skill", arguments: args }, undefined);

/// Returns everything that a client can see of the skill.
async function look(client) {
  const { tools } = await client.listTools();
  const tool = tools.find((one) => one.name === "skill");
  const { prompts } = await client.listPrompts();
  const { resources } = await client.listResources();
  const uri = `skill://${settings.name}/SKILL.md`;
  return {
    described: tool?.description.includes(`<name>${settings.name}</name>`) ?? false,
    description: tool?.description ?? null,
    prompt: prompts.some((prompt) => prompt.name === settings.name),
    resource: resources.some((resource) => resource.uri === uri),
    loaded: tool ? (await call(client, { name: settings.name.toUpperCase() })).content[0].text : null,
    read: await client.readResource({ uri }).then((read) => read.contents[0].text, (error) => error.code),
  };
}

const client = new library.Client({ name: "typescript", version: "0" });
listen(client);
const { command, args, env, cwd } = settings;
await client.connect(
  settings.url
    ? new library.StreamableHTTPClientTransport(new URL(settings.url), { requestInit: { headers: settings.headers } })
    : new library.StdioClientTransport({ command, args, env, cwd, stderr: "inherit" }),
);
const before = await look(client);
let start = told.length;
write(settings.first);
await changed(start);
const added = await look(client);
const missing = await call(client, { name: "no such skill" });
const empty = await call(client, { name: "" });
start = told.length;
write(settings.second);
await changed(start);
const edited = await look(client);
start = told.length;
rmSync(dirname(settings.file), { recursive: true });
await changed(start);
const deleted = await look(client);
process.stdout.write(`${JSON.stringify({ before, added, edited, deleted, missing, empty })}\n`);
await client.close();
