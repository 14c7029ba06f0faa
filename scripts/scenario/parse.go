// How is a scenario file read? Line by line into declarations, steps and expectations; the first mistake ends it, with its line number.
package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// line is one logical line of a file: a line that ends in a backslash goes on in the next.
type line struct {
	number int
	text   string
}

func logicalLines(text string) []line {
	var lines []line
	open := false
	for i, raw := range strings.Split(text, "\n") {
		raw = strings.TrimSpace(raw)
		continued := strings.HasSuffix(raw, "\\")
		raw = strings.TrimSpace(strings.TrimSuffix(raw, "\\"))
		if open {
			lines[len(lines)-1].text += " " + raw
		} else {
			lines = append(lines, line{number: i + 1, text: raw})
		}
		open = continued
	}
	return lines
}

// parser walks the logical lines once.
type parser struct {
	script *script
	lines  []line
	next   int
}

func parseScript(name, text string) (*script, error) {
	p := &parser{script: &script{name: name, demo: true}, lines: logicalLines(text)}
	steps, err := p.steps(false)
	if err != nil {
		return nil, err
	}
	p.script.story = steps
	if p.script.title == "" || p.script.dies == "" {
		return nil, errors.New("1: a scenario declares its title and who dies")
	}
	if len(p.script.expectations) == 0 {
		return nil, fmt.Errorf("%d: a scenario ends in `verdict` and at least one `expect`", len(p.lines))
	}
	if p.script.ownServers {
		p.script.demo = false
	}
	return p.script, nil
}

// steps reads until the end of the file, or until `end` inside a repeat.
func (p *parser) steps(inRepeat bool) ([]step, error) {
	var steps []step
	for p.next < len(p.lines) {
		l := p.lines[p.next]
		p.next++
		word, rest, _ := strings.Cut(l.text, " ")
		rest = strings.TrimSpace(rest)
		switch {
		case l.text == "":
		case strings.HasPrefix(l.text, "#"):
			steps = append(steps, step{line: l.number, said: p.paragraph(l)})
		case word == "end" && inRepeat:
			return steps, nil
		case word == "repeat":
			times, err := strconv.Atoi(rest)
			if err != nil || times < 1 {
				return nil, fmt.Errorf("%d: repeat wants a number, then steps, then end", l.number)
			}
			body, err := p.steps(true)
			if err != nil {
				return nil, err
			}
			steps = append(steps, step{line: l.number, times: times, body: body})
		case word == "verdict" && inRepeat:
			return nil, fmt.Errorf("%d: repeat without end", l.number)
		case word == "verdict":
			return steps, p.verdict()
		case p.declares(word, rest):
		default:
			act, err := compile(word, rest)
			if err != nil {
				return nil, fmt.Errorf("%d: %w", l.number, err)
			}
			p.script.cutsBroker = p.script.cutsBroker || word == "broker" && onThePath(rest)
			p.script.cutsDatabase = p.script.cutsDatabase || word == "database"
			whole := word == "restart" || word == "broker" && onTheServer(rest) || word == "dead-letters" && strings.HasPrefix(rest, retryEvery)
			if whole && !p.script.ownServers {
				return nil, fmt.Errorf("%d: only a scenario with own-servers may do that to one", l.number)
			}
			steps = append(steps, step{line: l.number, words: l.text, act: act})
		}
	}
	if inRepeat {
		return nil, fmt.Errorf("%d: repeat without end", len(p.lines))
	}
	return steps, nil
}

// paragraph joins the comment lines that follow first.
func (p *parser) paragraph(first line) string {
	words := []string{strings.TrimSpace(strings.TrimPrefix(first.text, "#"))}
	for p.next < len(p.lines) && strings.HasPrefix(p.lines[p.next].text, "#") {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(p.lines[p.next].text, "#")))
		p.next++
	}
	return strings.Join(words, " ")
}

// declares takes a header line; it reports whether word was one.
func (p *parser) declares(word, rest string) bool {
	switch word {
	case "title":
		p.script.title = rest
	case "dies":
		p.script.dies = rest
	case "demo":
		p.script.demo = rest != "no"
	case "own-servers":
		p.script.ownServers = true
	default:
		return false
	}
	return true
}

// verdict reads the expectations that close the file.
func (p *parser) verdict() error {
	for ; p.next < len(p.lines); p.next++ {
		l := p.lines[p.next]
		word, rest, _ := strings.Cut(l.text, " ")
		switch {
		case l.text == "" || strings.HasPrefix(l.text, "#"):
		case word == "expect":
			cond, err := parseCondition(strings.Fields(rest))
			if err != nil {
				return fmt.Errorf("%d: %w", l.number, err)
			}
			p.script.expectations = append(p.script.expectations, expectation{words: strings.TrimSpace(rest), cond: cond})
		default:
			return fmt.Errorf("%d: after `verdict` only `expect` lines follow", l.number)
		}
	}
	return nil
}
