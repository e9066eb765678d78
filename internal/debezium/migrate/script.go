package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxScriptObjects bounds the attempts to find JSON in a script.
const maxScriptObjects = 256

// objectBegin matches where JSON with a connector's options can begin.
var objectBegin = regexp.MustCompile(`\{\s*"`)

// parseScript reads the JSON that a shell script hands to Kafka Connect, as an argument of curl or a here-document.
func parseScript(text []byte) (*Input, error) {
	all := map[string]object{}
	for range maxScriptObjects {
		at := objectBegin.FindIndex(text)
		if at == nil {
			break
		}
		text = text[at[0]:]
		decoder := json.NewDecoder(bytes.NewReader(text))
		var raw json.RawMessage
		var top object
		if decoder.Decode(&raw) != nil || json.Unmarshal(raw, &top) != nil {
			text = text[1:]
			continue
		}
		text = text[decoder.InputOffset():]
		if top["config"] == nil && top["connector.class"] == nil {
			continue
		}
		if err := checkJSON(raw); err != nil {
			return nil, fmt.Errorf("the file is a shell script; in its JSON, %w", err)
		}
		name := fmt.Sprintf("number %d", len(all)+1)
		_ = json.Unmarshal(top["name"], &name)
		all[name] = top
	}
	if len(all) == 0 {
		return nil, errors.New("the file is a shell script without a connector's JSON that can be read in it: pass " +
			"that JSON alone, or what curl http://CONNECT:8083/connectors/NAME prints")
	}
	in, err := oneOf(all)
	if err == nil {
		in.From = "in a shell script"
	}
	return in, err
}

var (
	ksqlStatement = regexp.MustCompile(`(?mi)^\s*CREATE\s+(SOURCE|SINK)\s+CONNECTOR\b`)
	ksqlHead      = regexp.MustCompile(`(?is)^\s*CREATE\s+(?:SOURCE|SINK)\s+CONNECTOR\s+(?:IF\s+NOT\s+EXISTS\s+)?` +
		"(`[^`]+`|\"[^\"]+\"|[\\w-]+)\\s+WITH\\s*\\(")
	ksqlPair = regexp.MustCompile(`^(?:\s|--[^\n]*(?:\n|$)|/\*(?s:.*?)\*/)*` +
		"('(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|[\\w.]+)\\s*=\\s*('(?:[^']|'')*'|[\\w.+-]+)\\s*([,)])")
)

// parseKsql reads CREATE SOURCE CONNECTOR of ksqlDB.
func parseKsql(text []byte) (*Input, error) {
	starts := ksqlStatement.FindAllIndex(text, -1)
	if len(starts) > 1 {
		return nil, fmt.Errorf("the file has %d statements of ksqlDB that create connectors: pass one alone",
			len(starts))
	}
	rest := text[starts[0][0]:]
	head := ksqlHead.FindSubmatch(rest)
	failed := func(rest []byte) error {
		line := 1 + bytes.Count(text[:len(text)-len(rest)], []byte("\n"))
		return fmt.Errorf("the file is a statement of ksqlDB, and line %d of it cannot be read: pass what "+
			"curl http://CONNECT:8083/connectors/NAME prints for the connector that it has created", line)
	}
	if head == nil {
		return nil, failed(rest)
	}
	in := &Input{Form: ConnectJSON, From: "in a statement of ksqlDB", Name: ksqlText(head[1])}
	for rest = rest[len(head[0]):]; ; {
		pair := ksqlPair.FindSubmatch(rest)
		if pair == nil {
			return nil, failed(bytes.TrimLeft(rest, " \t\r\n"))
		}
		name := ksqlText(pair[1])
		in.Options = append(in.Options, Option{Given: name, Name: name, Value: ksqlText(pair[2])})
		if rest = rest[len(pair[0]):]; pair[3][0] == ')' {
			return in, nil
		}
	}
}

// ksqlText is a word or a literal without its quotes.
func ksqlText(word []byte) string {
	text := valid(word)
	if strings.HasPrefix(text, "'") {
		return strings.ReplaceAll(strings.Trim(text, "'"), "''", "'")
	}
	return strings.Trim(text, "\"`")
}
