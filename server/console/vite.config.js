// Builds the console into dist/: index.html, and everything else below assets/ with its hash in the
// name. The server sends a policy that forbids inline scripts and styles, so none may appear.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { defineConfig } from 'vite';

/** Packages whose code is in the built files. Their licences demand to be there too. */
const PACKAGES = ['preact', '@preact/signals', '@preact/signals-core', 'uplot'];

function licences() {
  const folders = createRequire(import.meta.url).resolve.paths('preact') ?? [];
  const texts = PACKAGES.map(name => `${name}\n\n${readLicence(folders, name)}`);
  return `/*!\n${texts.join('\n\n').replaceAll('*/', '* /')}\n*/\n`;
}

function readLicence(folders, name) {
  for (const folder of folders) {
    try {
      return readFileSync(join(folder, name, 'LICENSE'), 'utf8').trim();
    } catch {
      // The package lies in a later folder.
    }
  }
  throw new Error(`the licence of ${name} is missing`);
}

export default defineConfig({
  base: '/console/',
  // Nothing is copied beside index.html: the server knows index.html and assets/ only.
  publicDir: false,
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    // Browsers since spring 2024, which know light-dark() and AbortSignal.any().
    target: ['chrome123', 'firefox124', 'safari17.5'],
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { output: { postBanner: chunk => (chunk.isEntry ? licences() : '') } },
  },
});
