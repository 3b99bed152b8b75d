// Single-key shortcuts and their list in the help.

/** Listen for `shortcuts`, `[key, description, function]`, unless the user is typing. */
export function listen(shortcuts, isOn) {
  const actions = new Map(shortcuts.map(([key, , action]) => [key, action]));
  document.addEventListener("keydown", (event) => {
    const action = actions.get(event.key);
    const typing = event.target.matches?.("input:not([type=range], [type=checkbox]), textarea, select");
    const changed = event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
    if (!action || typing || changed || event.repeat || !isOn() || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    action();
  });
}

export function explain(list, shortcuts) {
  for (const [key, text] of [["← →", "move the focused slider (Page Up and Page Down for larger steps)"], ...shortcuts]) {
    const term = document.createElement("dt");
    const definition = document.createElement("dd");
    const cap = document.createElement("kbd");
    cap.textContent = key;
    term.append(cap);
    definition.textContent = text;
    list.append(term, definition);
  }
}
