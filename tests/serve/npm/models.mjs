// The AI SDK's model providers, against /v1.
import { generateText, streamText, jsonSchema, tool, generateObject, stepCountIs } from 'ai';
import { createOpenAI } from '@ai-sdk/openai';
import { createAnthropic } from '@ai-sdk/anthropic';

const { url, wire, action, text } = JSON.parse(process.argv[2]);
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: 'none' });
const anthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey: 'none' });
const model = { chat: () => openai.chat('chat'), responses: () => openai.responses('chat'), anthropic: () => anthropic('chat') }[wire]();
const options = { model, maxRetries: 0 };
const tools = { weather: tool({ description: 'The weather.', inputSchema: jsonSchema({ type: 'object', properties: { city: { type: 'string' } } }), execute: async ({ city }) => `${city} sunny` }) };
let result;
try {
  if (action === 'text') {
    const made = await generateText({ ...options, prompt: text });
    result = { text: made.text, reasoning: made.reasoningText ?? null, usage: made.usage, finish: made.finishReason };
  } else if (action === 'stream') {
    const errors = [];
    const made = streamText({ ...options, prompt: text, onError: ({ error }) => { errors.push(String(error)); } });
    let said = '';
    for await (const piece of made.textStream) said += piece;
    result = { text: said, errors };
    if (!errors.length) Object.assign(result, { reasoning: (await made.reasoningText) ?? null, usage: await made.usage, finish: await made.finishReason });
  } else if (action === 'abort') {
    const abort = new AbortController();
    const made = streamText({ ...options, prompt: text, abortSignal: abort.signal, onError: () => {} });
    let count = 0;
    for await (const piece of made.textStream) if (++count === 5) abort.abort();
    result = { count };
  } else if (action === 'tools') {
    const made = await generateText({ ...options, prompt: text, tools, stopWhen: stepCountIs(3) });
    result = { text: made.text, calls: made.steps[0].toolCalls.map(call => call.input.city) };
  } else if (action === 'picture') {
    const image = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2]);
    const made = await generateText({ ...options, messages: [{ role: 'user', content: [{ type: 'text', text: 'picture' }, { type: 'image', image, mediaType: 'image/png' }] }] });
    result = { text: made.text };
  }
} catch (error) {
  result = { problem: String(error), status: error.statusCode ?? null, headers: error.responseHeaders ?? null };
}
console.log(JSON.stringify(result));
process.exit(0);
