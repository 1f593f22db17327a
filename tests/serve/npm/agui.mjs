// AG-UI's HttpAgent, against /agui.
import { HttpAgent } from '@ag-ui/client';

const { url, app, content, action, resume, threadId, tools } = JSON.parse(process.argv[2]);
const agent = new HttpAgent({ url: `${url}/agui/${app}`, threadId: threadId ?? `thread-${Math.random()}` });
agent.addMessage({ id: 'u1', role: 'user', content });
const events = [];
const subscriber = { onEvent: ({ event }) => { events.push(event); } };
let problem = null, result = null, second = null;
try {
  if (action === 'abort') {
    const running = agent.runAgent({}, { ...subscriber, onTextMessageContentEvent: () => { setTimeout(() => agent.abortRun(), 50); } });
    result = await running;
  } else {
    result = await agent.runAgent({ tools }, subscriber);
  }
  if (action === 'regenerate') {
    agent.setMessages(agent.messages.filter(message => message.role === 'user'));
    await agent.runAgent({}, subscriber);
    agent.addMessage({ id: 'u2', role: 'user', content: 'remember' });
    await agent.runAgent({}, subscriber);
  }
  if (resume) {
    const last = events.at(-1);
    const entries = last.outcome.interrupts.map(item => ({ interruptId: item.id, status: 'resolved', payload: resume }));
    const before = events.length;
    await agent.runAgent({ resume: entries }, subscriber);
    second = events.slice(before);
  }
} catch (error) { problem = String(error); }
console.log(JSON.stringify({ events, messages: agent.messages, problem, second }));
process.exit(0);
