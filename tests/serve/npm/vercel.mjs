// The AI SDK's transport and chat, against /api/chat.
import { DefaultChatTransport, AbstractChat, readUIMessageStream, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';

const { url, app, text, parts, action, id } = JSON.parse(process.argv[2]);
const transport = new DefaultChatTransport({ api: `${url}/api/chat/${app}`, headers: JSON.parse(process.argv[2]).headers });
const chatId = id ?? `chat-${Math.random()}`;
const user = { id: 'u1', role: 'user', parts: parts ?? [{ type: 'text', text }] };

class State {
  status = 'ready'; error = undefined; messages = [];
  pushMessage = m => { this.messages = [...this.messages, m]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (i, m) => { this.messages = [...this.messages.slice(0, i), m, ...this.messages.slice(i + 1)]; };
  snapshot = v => structuredClone(v);
}
class Chat extends AbstractChat {
  constructor(init) { super({ ...init, state: new State() }); }
}

const chunks = async stream => { const out = []; for await (const chunk of stream) out.push(chunk); return out; };
const send = (messages, signal) => transport.sendMessages({ chatId, messages, trigger: 'submit-message', abortSignal: signal });
let result;
if (action === 'chunks') {
  result = await chunks(await send([user]));
} else if (action === 'chat') {
  let problem = null;
  const chat = new Chat({ id: chatId, transport, onError: error => { problem = String(error); } });
  await chat.sendMessage(user);
  result = { messages: chat.messages, status: chat.status, problem };
} else if (action === 'approval') {
  const chat = new Chat({ id: chatId, transport, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
  await chat.sendMessage(user);
  const asked = chat.messages.at(-1).parts.filter(part => part.state === 'approval-requested');
  for (const [place, part] of asked.entries()) {
    await chat.addToolApprovalResponse({ id: part.approval.id, approved: place === 0, reason: place ? 'not this one' : undefined });
  }
  for (let i = 0; i < 200 && !(chat.status === 'ready' && chat.messages.at(-1).parts.some(p => p.type === 'text' && p.text.startsWith('The tools said'))); i++)
    await new Promise(resolve => setTimeout(resolve, 50));
  result = { asked: asked.length, messages: chat.messages, status: chat.status };
} else if (action === 'regenerate') {
  const chat = new Chat({ id: chatId, transport });
  for (const [place, line] of text.entries()) await chat.sendMessage({ id: `q${place}`, role: 'user', parts: [{ type: 'text', text: line }] });
  await chat.regenerate();
  const again = structuredClone(chat.messages);
  await chat.sendMessage({ text: 'changed', messageId: chat.messages[0].id });
  await chat.sendMessage({ id: 'q9', role: 'user', parts: [{ type: 'text', text: 'remember' }] });
  result = { again, messages: chat.messages };
} else if (action === 'reconnect') {
  const abort = new AbortController();
  const stream = await send([user], abort.signal);
  const reader = stream.getReader();
  for (let i = 0; i < 4; i++) await reader.read();
  abort.abort();
  const again = await transport.reconnectToStream({ chatId });
  const all = again === null ? null : await chunks(again);
  const none = await transport.reconnectToStream({ chatId });
  result = { all, none };
} else if (action === 'error') {
  try { await chunks(await send([user])); result = 'no error'; } catch (error) { result = String(error); }
}
console.log(JSON.stringify(result));
process.exit(0);
