import { createRoot } from "react-dom/client";
import { App } from "./App";
import { Crash } from "./parts/Crash";
import { start } from "./state/sync";
import "./styles/tokens.css";
import "./styles/parts.css";
import "./styles/layout.css";
import "./styles/panels.css";
import "./styles/dialogs.css";

const root = document.getElementById("page");
if (root)
  createRoot(root).render(
    <Crash>
      <App />
    </Crash>,
  );
void start();
