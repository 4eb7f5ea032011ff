// The worker from the iii registry's guide for Node, with function ids as newer SDKs expect them. It prints a last line
// when everything is registered.
import { registerWorker } from 'iii-sdk'

const iii = registerWorker(process.env.HUB_URL ?? 'ws://localhost:49134')

iii.registerFunction('demo::guide', async () => ({
  content: '# Demo guide\n\nThe long-form docs for the demo worker.',
}))

iii.registerFunction('demo::greet_prompt', async ({ name = 'world' }) => ({
  content: `Greet ${name} warmly.`,
}))

iii.registerFunction('demo::on_change', async ({ id }) => console.log('changed', JSON.stringify(id)))
iii.registerTrigger({ type: 'skills::on-change', function_id: 'demo::on_change', config: {} })

await iii.trigger({
  function_id: 'skills::register',
  payload: {
    id: 'demo',
    skill: '# demo\n\nA demo worker.\n\nSee [`guide`](iii://demo/demo::guide) for the long version.\n',
  },
})

await iii.trigger({
  function_id: 'prompts::register',
  payload: {
    name: 'greet',
    description: 'Compose a greeting.',
    arguments: [{ name: 'name', description: 'Who to greet', required: true }],
    function_id: 'demo::greet_prompt',
  },
})

console.log('ready')
