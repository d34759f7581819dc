// Client of kafkajs: produces and consumes with the login that standard input describes, and prints values or an error.
'use strict'

const fs = require('fs')
const { Kafka, Partitioners, logLevel } = require('kafkajs')

const clientOf = task =>
  new Kafka({
    brokers: [task.address],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 8 },
    ssl: task.usesTls && tlsOf(task),
    sasl: task.mechanism ? saslOf(task) : undefined,
  })

const tlsOf = task => {
  const identity = task.identity ? fs.readFileSync(task.identity) : undefined
  return { ca: [fs.readFileSync(task.authority)], cert: identity, key: identity }
}

const saslOf = task => ({
  mechanism: task.mechanism.toLowerCase(),
  username: task.user,
  password: task.password,
  oauthBearerProvider: async () => ({ value: task.oauthbearer_token }),
})

const produce = async (client, task) => {
  const producer = client.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  try {
    await producer.connect()
    const messages = task.values.map(value => ({ value, partition: 0 }))
    await producer.send({ topic: task.topic, messages })
  } finally {
    await producer.disconnect()
  }
}

// kafkajs consumes only as a member of a group.
const consume = async (client, task) => {
  const consumer = client.consumer({ groupId: task.topic })
  const values = []
  try {
    await consumer.connect()
    await consumer.subscribe({ topic: task.topic, fromBeginning: true })
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
      const eachMessage = async ({ message }) => {
        values.push(message.value.toString())
        if (values.length === task.values.length) resolve()
      }
      consumer.run({ eachMessage }).catch(reject)
    })
  } finally {
    await consumer.disconnect()
  }
  return values
}

const textOf = error => (error ? [`${error.name}: ${error.message}`, textOf(error.cause)].filter(Boolean).join('; ') : '')

const main = async () => {
  const task = JSON.parse(fs.readFileSync(0))
  const client = clientOf(task)
  try {
    await produce(client, task)
    return { values: await consume(client, task), error: '' }
  } catch (error) {
    return { values: [], error: textOf(error) }
  }
}

main().then(result => console.log(JSON.stringify(result)))
