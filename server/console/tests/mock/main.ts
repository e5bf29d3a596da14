// Serves the built console with made-up data, to look at it: `main.js DIST PORT [usual|empty|hostile|long]`.

import { startMock, type Scene } from './server.js';

const [dist = 'dist', port = '7280', data = 'usual'] = process.argv.slice(2);
const mock = await startMock(dist, Number(port));
mock.scene.data = data as Scene['data'];
console.log(`${mock.origin}/console/#/login?link=link-that-works-once`);
