// Package archive keeps rows of an outbox in files, so that the rows can be deleted from the table and still be
// published again.
//
// A file is text, compressed with zstd: a line with a Header, a line per row, a line with a Manifest. A row is a JSON
// array of the values' texts as Postgres prints them, null for NULL; a text that is not UTF-8 is {"base64": "..."}. A
// second file repeats the Manifest and adds the checksum of the compressed file. Each file is either complete on the
// disk under its name, or absent.
package archive

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// Format is the Header's first member.
const Format = "cdc-outbox archive 1"

// The file names end in these suffixes.
const (
	Suffix         = ".jsonl.zst"
	ManifestSuffix = ".manifest.json"
)

// Header describes the rows.
type Header struct {
	Format   string    `json:"format"`
	Run      string    `json:"run"`
	Written  time.Time `json:"written_at"`
	Schema   string    `json:"schema"`
	Table    string    `json:"table"`
	OID      uint32    `json:"table_oid"`
	Columns  []Column  `json:"columns"`
	Server   string    `json:"server_version"`
	SystemID string    `json:"system_id"`
	Database string    `json:"database"`
}

// Column is one column.
type Column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	TypeOID  uint32 `json:"type_oid"`
	Modifier int32  `json:"modifier"`
}

// Manifest describes the extent of the file. First and Last are keys in the table's order.
type Manifest struct {
	File   string `json:"file,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Rows   int64  `json:"rows"`
	First  *Key   `json:"first"`
	Last   *Key   `json:"last"`
}

// Key is a row's place in the table's order: the texts of its timestamp and its id. Timestamp is nil if the row has
// none.
type Key struct {
	Timestamp *string `json:"timestamp,omitempty"`
	ID        string  `json:"id"`
}

func (h *Header) relation() *pgoutput.Relation {
	rel := &pgoutput.Relation{OID: h.OID, Namespace: h.Schema, Name: h.Table}
	for _, c := range h.Columns {
		rel.Columns = append(rel.Columns, pgoutput.Column{Name: c.Name, TypeOID: c.TypeOID, Modifier: c.Modifier})
	}
	return rel
}
