/** What is left to say when the page itself has broken. */
import { Component, type ReactNode } from "react";

export class Crash extends Component<{ children: ReactNode }, { broken: string | null }> {
  override state = { broken: null as string | null };

  static getDerivedStateFromError(error: unknown) {
    return { broken: String(error) };
  }

  override render() {
    if (this.state.broken === null) return this.props.children;
    return (
      <main className="start" role="alert">
        <h1>The page has broken</h1>
        <p className="lead">Every change you made is saved. Reload the page to go on.</p>
        <p className="faint">{this.state.broken}</p>
        <p>
          <a href={location.href} onClick={() => location.reload()}>
            Reload
          </a>
        </p>
      </main>
    );
  }
}
