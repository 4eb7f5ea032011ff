// One conversation with the server through a TypeScript SDK; the result is printed as one line of JSON.
//
// Usage: node typescript_client.mjs SETTINGS, where SETTINGS is JSON:
//   modules   the directory with the SDKs
//   sdk       "client" (2.x) or "sdk" (1.x)
//   version   a protocol version to insist on, "auto" to probe for the newest, or nothing
//   url       of a server over HTTP, and the headers to send; else
//   command, args, env, cwd   of a server over stdio
//   talk      one of the functions below

import { createRequire } from "node:module";

const settings = JSON.parse(process.argv[2]);
const require = createRequire(`${settings.modules}/`);
const LONG = "wait 60000";

function library() {
  if (settings.sdk === "client") {
    return {
      ...require("@modelcontextprotocol/client"),
      ...require("@modelcontextprotocol/client/stdio"),
    };
  }
  return {
    ...require("@modelcontextprotocol/sdk/client/index.js"),
    ...require("@modelcontextprotocol/sdk/client/stdio.js"),
    ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
  };
}

async function connect() {
  const { Client, StdioClientTransport, StreamableHTTPClientTransport } = library();
  const options = {};
  if (settings.version === "auto") options.versionNegotiation = { mode: "auto" };
  else if (settings.version) options.supportedProtocolVersions = [settings.version];
  const client = new Client({ name: "typescript", version: "0" }, options);
  const { command, args, env, cwd } = settings;
  const transport = settings.url
    ? new StreamableHTTPClientTransport(new URL(settings.url), { requestInit: { headers: settings.headers } })
    : new StdioClientTransport({ command, args, env, cwd, stderr: "inherit" });
  await client.connect(transport);
  return client;
}

async function call(client, name, args, options) {
  const schema = undefined;
  const params = { name, arguments: args };
  return settings.sdk === "client" ? client.callTool(params, options) : client.callTool(params, schema, options);
}

const payload = (result) => JSON.parse(result.content[0].text);

async function sessions(client) {
  return payload(await call(client, "meerkat_sessions", {})).sessions;
}

async function until(find) {
  for (;;) {
    const found = await find();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
}

const talks = {
  async lists(client) {
    const tools = await client.listTools();
    const resources = await client.listResources();
    const templates = await client.listResourceTemplates();
    const prompts = await client.listPrompts();
    return { tools: tools.tools, resources, templates, prompts, server: client.getServerVersion() };
  },

  async progress(client) {
    const told = [];
    const options = { onprogress: (progress) => told.push(progress) };
    const run = await call(client, "meerkat_run", { prompt: "wait 300\nsay hello" }, options);
    return { run, told };
  },

  async cancel(client) {
    const controller = new AbortController();
    const running = call(client, "meerkat_run", { prompt: LONG }, { signal: controller.signal });
    const ended = running.then(() => "answered", () => "cancelled");
    const active = await until(async () => (await sessions(client)).find((session) => session.is_active));
    controller.abort("enough");
    await until(async () => !(await sessions(client)).some((session) => session.is_active));
    const session_id = active.session_id;
    const resumed = await call(client, "meerkat_resume", { session_id, prompt: "say back" });
    return { ended: await ended, session_id, resumed };
  },

  async callback(client) {
    const run = await call(client, "meerkat_run", settings.run);
    const { session_id, pending_tool_calls } = payload(run);
    const tool_results = [{ tool_use_id: pending_tool_calls[0].tool_use_id, content: "hi", is_error: false }];
    const resume = { session_id, prompt: "", tools: settings.run.tools, tool_results };
    return { run, resumed: await call(client, "meerkat_resume", resume) };
  },

  async run(client) {
    return { run: await call(client, "meerkat_run", { prompt: settings.prompt }) };
  },

  async resume(client) {
    const { session_id, prompt } = settings;
    return { resumed: await call(client, "meerkat_resume", { session_id, prompt }) };
  },

  async events(client) {
    const { session_id } = payload(await call(client, "meerkat_run", { prompt: "say one" }));
    const open = async (after) =>
      payload(await call(client, "meerkat_event_stream_open", after === undefined ? { session_id } : { session_id, after }));
    const read = async ({ stream_id }) => {
      const seen = [];
      for (;;) {
        const next = payload(await call(client, "meerkat_event_stream_read", { stream_id, timeout_ms: 300, limit: 100 }));
        if (next.status !== "event") return seen;
        seen.push(...next.events);
      }
    };
    const live = await open();
    await call(client, "meerkat_resume", { session_id, prompt: "say two" });
    const seen = await read(live);
    const closed = payload(await call(client, "meerkat_event_stream_close", live));
    const again = await read(await open(seen[0].seq));
    return { seen, again, closed };
  },

  async resource(client) {
    const run = payload(await call(client, "meerkat_run", { prompt: "say hello" }));
    const read = await client.readResource({ uri: `meerkat://session/${run.session_id}` });
    return { run, read };
  },
};

const client = await connect();
const found = await talks[settings.talk](client);
process.stdout.write(`${JSON.stringify(found)}\n`);
await client.close();
