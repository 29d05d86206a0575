// A page or section that has the words of the search in its title, next to each other, comes first:
// who looks for "Table 1" wants the table, not a page with many ones. "Tables 2, 3 and 5" has it too.
var Scorer = {
  score: (result) => {
    const words = (new URLSearchParams(window.location.search).get("q") ?? "").trim();
    if (!words) return result[4];
    const one = words.match(/^(table|figure) (\d+)[a-d]?$/i);
    const wanted = one
      ? `${one[1]}s?\\s([\\d, ]|and)*\\b${one[2]}[a-d]?\\b`
      : `(^|\\W)${words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(\\W|$)`;
    const page = /^notebooks\//.test(result[0]) ? 1 : 0; // of equals, the paper's pages come first
    return result[4] + page + (new RegExp(wanted, "i").test(result[1]) ? 100 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 1, // a page that has the word comes before a symbol that has it in its name
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
