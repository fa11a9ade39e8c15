// The editor: SQL in CodeMirror, and the statements that it has run.
import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { keywordCompletionSource, SQLDialect, sql } from "@codemirror/lang-sql";
import {
  bracketMatching,
  ensureSyntaxTree,
  HighlightStyle,
  syntaxHighlighting,
} from "@codemirror/language";
import { type Diagnostic, setDiagnostics } from "@codemirror/lint";
import { searchKeymap } from "@codemirror/search";
import type { EditorState, Extension } from "@codemirror/state";
import { Decoration, EditorView, keymap, lineNumbers, ViewPlugin } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { Calls } from "./calls";
import { Drafts } from "./drafts";
import { Names } from "./names";
import { type Piece, Runs } from "./runs";

/** Spark's SQL: text may have both quotes, and names have backquotes. */
const SPARK = SQLDialect.define({
  keywords:
    "add after all alter analyze and anti any array as asc at atomic between both bucket by cache " +
    "cascade case cast catalog check cluster clustered collate column columns comment constraint " +
    "create cross cube current database databases default delete desc describe detail distinct " +
    "distribute drop else end escape except exists explain export external extract false filter " +
    "first following for foreign format formatted from full function functions global grant group " +
    "grouping having identifier if ignore in inner insert intersect interval into is join last " +
    "lateral leading left like limit list lists location map materialized matched merge minus " +
    "natural no not null nulls of offset on only optimize options or order outer over overwrite " +
    "partition partitioned partitions pivot preceding primary purge qualify range recursive " +
    "refresh rename repair replace reset restrict right rlike rollup row rows save schema schemas " +
    "select semi set sets show sink some sort stored stream streams struct table tables " +
    "tablesample tblproperties temporary then time timestamp to trailing transform true truncate " +
    "unbounded uncache union unpivot unset update use using values view views watermark when where " +
    "window with within zone",
  types:
    "bigint binary boolean byte char date dec decimal double float int integer long numeric real " +
    "short smallint string timestamp_ltz timestamp_ntz tinyint varchar variant void",
  backslashEscapes: true,
  doubleQuotedStrings: true,
  identifierQuotes: "`",
});

const STYLE = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--link)", fontWeight: "600" },
  { tag: tags.typeName, color: "var(--link)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: tags.number, color: "var(--wait)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
]);

const THEME = EditorView.theme({
  "&": { backgroundColor: "var(--page)", border: "1px solid var(--line)", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--focus)" },
  ".cm-content": { caretColor: "var(--text)", minHeight: "12em" },
  ".cm-scroller": { fontFamily: "ui-monospace, 'DejaVu Sans Mono', monospace", maxHeight: "50vh" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--quiet)", border: "none" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
    backgroundColor: "var(--selected) !important",
  },
  ".cm-marked": { backgroundColor: "var(--raised)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--link)",
    color: "var(--page)",
  },
});

/** Return where the statement at the cursor begins and ends; null: not known, or the only one. */
function markedRange(state: EditorState): { from: number; to: number } | null {
  const tree = ensureSyntaxTree(state, state.doc.length, 50);
  const { empty, head } = state.selection.main;
  if (!tree || !empty) {
    return null;
  }
  const found = tree.topNode.getChildren("Statement");
  const node = found.findLast((each) => each.from <= head) ?? found[0];
  return node && found.length > 1 ? { from: node.from, to: node.to } : null;
}

const LANGUAGE: Extension = sql({ dialect: SPARK });
const MARK = Decoration.line({ class: "cm-marked" });

/** Marks the lines of the statement that Ctrl+Enter would run. */
const marking = ViewPlugin.fromClass(
  class {
    decorations = Decoration.none;
    constructor(view: EditorView) {
      this.mark(view);
    }
    update(update: { view: EditorView; docChanged: boolean; selectionSet: boolean }) {
      if (update.docChanged || update.selectionSet) {
        this.mark(update.view);
      }
    }
    private mark({ state }: EditorView) {
      const range = markedRange(state);
      const lines = [];
      if (range) {
        const last = state.doc.lineAt(range.to).number;
        for (let n = state.doc.lineAt(range.from).number; n <= last; n++) {
          lines.push(MARK.range(state.doc.line(n).from));
        }
      }
      this.decorations = Decoration.set(lines);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

/**
 * Replaces a selection of several lines by what is typed. Chromium's own way to join the lines sets
 * styles, which the content policy refuses.
 */
const joining = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view;
    const { from, to } = state.selection.main;
    const isOneLine = state.doc.lineAt(from).number === state.doc.lineAt(to).number;
    if (event.inputType !== "insertText" || event.isComposing || !event.data || isOneLine) {
      return false;
    }
    view.dispatch(state.update(state.replaceSelection(event.data), { userEvent: "input.type" }));
    event.preventDefault();
    return true;
  },
});

const form = document.getElementById("editor") as HTMLFormElement | null;
const area = document.getElementById("text") as HTMLTextAreaElement | null;
if (form && area) {
  start(form, area);
}

function start(form: HTMLFormElement, area: HTMLTextAreaElement): void {
  const calls = new Calls(form);
  const runs = new Runs(form, calls, showError);
  const drafts = new Drafts(form, calls, area.value);
  const names = new Names(
    document.documentElement.dataset.root ?? "../",
    document.getElementById("names") as HTMLButtonElement,
    (link) => calls.post(link),
  );
  const host = document.createElement("div");
  area.before(host);
  area.hidden = true;
  const runAll = () => {
    begin(0, view.state.doc.toString(), (pieces) => pieces);
    return true;
  };
  const runChosen = () => {
    const { state } = view;
    const { from, to, empty, head } = state.selection.main;
    if (empty) {
      // Behind the last `;`, the cursor is at the statement before it.
      begin(0, state.doc.toString(), (pieces) => {
        const piece = pieces.findLast((each) => each.from <= head) ?? pieces[0];
        return piece ? [piece] : [];
      });
    } else {
      begin(from, state.sliceDoc(from, to), (pieces) => pieces);
    }
    return true;
  };
  const begin = (from: number, text: string, choose: (pieces: Piece[]) => Piece[]) => {
    view.dispatch(setDiagnostics(view.state, []));
    const move = (piece: Piece) => ({ ...piece, from: piece.from + from });
    void runs.run(text, (pieces) => choose(pieces).map(move));
  };
  // Styles in a shadow tree need no exception from the content policy.
  const root = host.attachShadow({ mode: "open" });
  const view = new EditorView({
    parent: root,
    root,
    doc: area.value,
    extensions: [
      keymap.of([
        { key: "Mod-Enter", run: runChosen },
        { key: "Mod-Shift-Enter", run: runAll },
        ...completionKeymap,
        ...defaultKeymap,
        ...historyKeymap,
        ...searchKeymap,
      ]),
      lineNumbers(),
      history(),
      bracketMatching(),
      closeBrackets(),
      autocompletion({
        override: [keywordCompletionSource(SPARK, true), (context) => names.complete(context)],
      }),
      LANGUAGE,
      syntaxHighlighting(STYLE),
      THEME,
      marking,
      joining,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": "SQL" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) {
          drafts.change(update.state.doc.toString());
        }
      }),
    ],
  });
  void drafts.readNewer().then((text) => {
    if (text !== null) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    }
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    runChosen();
  });
  document.getElementById("run-all")?.addEventListener("click", runAll);
  for (const id of ["run-all", "keys"]) {
    document.getElementById(id)?.removeAttribute("hidden");
  }
  document.querySelector("label[for=text]")?.addEventListener("click", () => view.focus());

  /** Mark the place of an error in the text that was run, if it still stands there. */
  function showError(piece: Piece, message: string, line: number | null, column: number | null) {
    const { state } = view;
    if (state.sliceDoc(piece.from, piece.from + piece.text.length) !== piece.text) {
      return;
    }
    let at = piece.from;
    if (line !== null && column !== null) {
      const lines = piece.text.split("\n");
      at += lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
      // The node counts code points, and the browser counts units of UTF-16.
      at += [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
    }
    at = Math.min(at, state.doc.length);
    const word = state.wordAt(at);
    const mark: Diagnostic = { from: at, to: word?.to ?? at, severity: "error", message };
    view.dispatch(setDiagnostics(state, [mark]), { selection: { anchor: at } });
  }
}
