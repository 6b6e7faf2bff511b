// A peer of `lingua bench peers`: receives the same frames as an instance, with Node and ws, and counts them.
// JSON is parsed and its audio decoded from base64; of binary frames the header is read and the audio cut off.
'use strict';

const http = require('node:http');
const { WebSocketServer } = require('ws');

const WELCOME = '{"type":"session_init_ack","session_id":"s-00000000000000000000"}';
const HEADER_BYTES = 12;

let frames = 0;
let audioBytes = 0;

const server = http.createServer((_request, response) => {
  response.end(JSON.stringify({ frames, audio_bytes: audioBytes }));
});

new WebSocketServer({ server, perMessageDeflate: false }).on('connection', (socket) => {
  let introduced = false;
  socket.on('message', (data, isBinary) => {
    if (!introduced) {
      introduced = true;
      socket.send(WELCOME);
      return;
    }
    const audio = isBinary
      ? data.subarray(HEADER_BYTES + data[1])
      : Buffer.from(JSON.parse(data).payload, 'base64');
    frames += 1;
    audioBytes += audio.length;
  });
});

server.listen(0, '127.0.0.1', () => process.stdout.write(`listening ${server.address().port}\n`));
process.stdin.on('end', () => process.exit(0)).resume();
