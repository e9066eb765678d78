package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

const caseDir = "../../testdata/debezium"

// The members of a case's file.
const (
	connectorFile = "connector.json"
	tableFile     = "table.sql"
	rowsFile      = "rows.sql"
	chanceFile    = "by-chance" // a line "<row> <reason>" for each row that Debezium treats now this way, now that
	debeziumFile  = "debezium"  // captured: what Debezium wrote for each change
	// a line "<row> <heading in docs/debezium-differences.md>" for each row that we treat otherwise
	differencesFile = "differences"
	oursFile        = "cdc-outbox" // what cdc-outbox writes for those rows
)

// testCase is one file of testdata/debezium.
type testCase struct {
	name    string
	path    string
	archive *txtar.Archive

	connector []byte            // as posted to Kafka Connect
	config    map[string]string // its "config"
	table     string            // schema.name, the one table that the connector includes
}

func loadCases(t *testing.T) []*testCase {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(caseDir, "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var cases []*testCase
	for _, path := range paths {
		c, err := loadCase(path)
		require.NoError(t, err, path)
		cases = append(cases, c)
	}
	return cases
}

func loadCase(path string) (*testCase, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	c := &testCase{name: strings.TrimSuffix(filepath.Base(path), ".txtar"), path: path, archive: archive}
	c.connector = []byte(c.file(connectorFile))
	var posted struct {
		Config map[string]string `json:"config"`
	}
	if err := json.Unmarshal(c.connector, &posted); err != nil {
		return nil, fmt.Errorf("%s: %w", connectorFile, err)
	}
	c.config = posted.Config
	c.table = c.config["table.include.list"]
	if c.table != "public."+c.name {
		return nil, fmt.Errorf("table.include.list is %q; the table of a case has its name: public.%s", c.table, c.name)
	}
	return c, nil
}

func (c *testCase) file(name string) string {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// set replaces a member of the file, or appends it.
func (c *testCase) set(name, text string) {
	for i := range c.archive.Files {
		if c.archive.Files[i].Name == name {
			c.archive.Files[i].Data = []byte(text)
			return
		}
	}
	c.archive.Files = append(c.archive.Files, txtar.File{Name: name, Data: []byte(text)})
}

func (c *testCase) save() error {
	return os.WriteFile(c.path, txtar.Format(c.archive), 0o644)
}

// differences are the rows that we treat otherwise: number to heading.
func (c *testCase) differences() (map[int]string, error) { return c.byRow(differencesFile) }

// leaveOutChance puts the reason in the place of what is different the next time.
func (c *testCase) leaveOutChance(outcomes []outcome) error {
	reasons, err := c.byRow(chanceFile)
	for row, reason := range reasons {
		outcomes[row-1] = outcome{Fate: "by chance: " + reason}
	}
	return err
}

// byRow reads a member of lines "<row> <text>".
func (c *testCase) byRow(file string) (map[int]string, error) {
	found := map[int]string{}
	for line := range strings.Lines(c.file(file)) {
		number, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		row, err := strconv.Atoi(number)
		if err != nil || text == "" {
			return nil, fmt.Errorf("%s: %q is not a row and a text", file, line)
		}
		found[row] = text
	}
	return found, nil
}
