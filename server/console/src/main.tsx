// Starts the console.

import { render } from 'preact';

import { startSession } from './api/sign-in.js';
import { App } from './app/app.js';
import { followAddress } from './state/location.js';
import { followTheme } from './state/theme.js';
import './styles/index.css';

followTheme();
followAddress();
startSession();
const root = document.getElementById('root');
if (root) render(<App />, root);
