// Keeps the frame on the screen if a page fails to show its data.

import { Component, type ComponentChildren } from 'preact';

import { Page } from '../parts/page.js';
import { Empty } from '../parts/states.js';

interface State {
  failure: string | null;
}

export class Guard extends Component<{ children: ComponentChildren }, State> {
  override state: State = { failure: null };

  static override getDerivedStateFromError(error: unknown): State {
    return { failure: error instanceof Error ? error.message : String(error) };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
  }

  override render() {
    if (this.state.failure === null) return this.props.children;
    return (
      <Page title="This page cannot be shown">
        <Empty title="The console does not understand an answer of the server">
          <code>{this.state.failure}</code>
        </Empty>
      </Page>
    );
  }
}
