package byhand

// What does the page ask the reader to type, and what does it say will appear? Everything is in its
// fenced blocks: sh to type, text to read. The first line of each says in which terminal.

import (
	"fmt"
	"regexp"
	"strings"
)

// block is one fenced block.
type block struct {
	line     int    // of the fence, in the page
	typed    bool   // sh: commands; otherwise text: what appears
	terminal string // "1"
	ctrlC    bool   // to be pressed before typing
	body     string // without the first line
}

var heading = regexp.MustCompile(`^# terminal (\d)(, after ctrl-C)?$`)

// readPage returns the blocks in order. A block that is not told where it belongs is an error: it would not be tested.
func readPage(markdown string) (blocks []block, err error) {
	var open *block
	for i, line := range strings.Split(markdown, "\n") {
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case !fence && open != nil:
			open.body += line + "\n"
		case fence && open == nil:
			if kind != "sh" && kind != "text" {
				return nil, fmt.Errorf("line %d: a block is sh or text, not %q", i+1, kind)
			}
			open = &block{line: i + 1, typed: kind == "sh"}
		case fence:
			first, rest, _ := strings.Cut(open.body, "\n")
			where := heading.FindStringSubmatch(first)
			if where == nil {
				return nil, fmt.Errorf("line %d: the block begins with %q, not with `# terminal N`", open.line, first)
			}
			open.terminal, open.ctrlC, open.body = where[1], where[2] != "", rest
			blocks, open = append(blocks, *open), nil
		}
	}
	return blocks, nil
}

// onlyLooks tells whether typing the block again changes nothing: a reader who looks too early looks again.
func (b block) onlyLooks() bool {
	return !regexp.MustCompile(`\bbin/|\bgo run\b|\bINSERT\b|\bALTER\b`).MatchString(b.body)
}
