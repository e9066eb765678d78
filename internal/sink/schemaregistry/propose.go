package schemaregistry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/encoding"
)

const (
	// A registry may answer with a sentence for each member of each version.
	maxReasons = 20
	maxReason  = 500 // bytes
)

// Proposal is a schema that is not registered, for the next version of a subject.
type Proposal struct {
	Subject string
	Type    string // AVRO, JSON, PROTOBUF
	Text    string
}

// Judgement is the opinion of a registry, and of the relay, about a proposal.
type Judgement struct {
	New        bool     // the registry does not have the subject
	Latest     bool     // the registry compares with the latest version only, whatever its level
	Compatible bool     // says the registry; true of a new subject
	Reasons    []string // of the registry, why it is not

	Encoder  router.Encoder // nil: the relay cannot encode payloads by it
	Unusable error          // why
}

// Propose asks a registry whether it would take a schema. Nothing is registered. The schema may refer to what the
// latest version of the subject refers to, by the same names. The error is an *Error, or that of ctx: nothing is known.
func (c *Client) Propose(ctx context.Context, p *Proposal) (*Judgement, error) {
	need := router.UnresolvedSchema{Subject: p.Subject, Version: router.LatestSchema}
	was, err := c.lookup(ctx, need)
	if err != nil {
		return nil, orCause(ctx, err)
	}
	j := &Judgement{New: was.State != router.SchemaKnown, Compatible: true}
	source := encoding.Source{Type: p.Type, Text: p.Text}
	f := fetching{
		client: c, need: need, source: &source, named: map[string]reference{}, left: maxTexts - len(p.Text),
	}
	if err := f.references(ctx, was.content.References, 0); err != nil {
		return nil, orCause(ctx, err)
	}
	j.Encoder, j.Unusable = encoding.Compile(source)
	if j.New {
		return j, nil
	}
	asked := content{Type: p.Type, Text: p.Text, References: was.content.References}
	return j, orCause(ctx, c.compare(ctx, p.Subject, &asked, j))
}

// orCause is the error, or why ctx has ended.
func orCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// compare asks for every version that the subject's level names. A registry without that question answers 404 or 405
// without a code of its own, and is asked to compare with the latest version.
func (c *Client) compare(ctx context.Context, subject string, asked *content, j *Judgement) error {
	body, err := json.Marshal(asked)
	if err != nil {
		return c.failed(false, err, "")
	}
	path := "/compatibility/subjects/" + url.PathEscape(subject) + "/versions"
	known, err := c.compareAt(ctx, path, body, j)
	if err == nil && !known {
		j.Latest = true
		known, err = c.compareAt(ctx, path+"/latest", body, j)
	}
	if err == nil && !known {
		err = c.failed(false, errors.New("it compares no schemas"), correctURL)
	}
	return err
}

func (c *Client) compareAt(ctx context.Context, path string, body []byte, j *Judgement) (known bool, err error) {
	resp, err := c.do(ctx, http.MethodPost, path+"?verbose=true", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		return true, c.readCompatible(ctx, resp, j)
	case http.StatusUnprocessableEntity:
		j.Compatible, j.Reasons = false, []string{"the registry takes it for no valid schema"}
		return true, nil
	case http.StatusMethodNotAllowed:
		return false, nil
	}
	if resp.StatusCode != http.StatusNotFound {
		_, err = c.refused(resp)
		return false, err
	}
	// The subject was there a moment ago: without a code, the address is not.
	if _, err = c.refused(resp); err == nil {
		j.New = true
		return true, nil
	}
	return false, nil
}

// readCompatible takes the registry's sentences over, which are about schemas.
func (c *Client) readCompatible(ctx context.Context, resp *http.Response, j *Judgement) error {
	var got struct {
		Compatible *bool    `json:"is_compatible"`
		Messages   []string `json:"messages"`
	}
	malformed, err := c.decode(ctx, resp, &got)
	switch {
	case err != nil:
		return err
	case malformed || got.Compatible == nil:
		return c.failed(false, errors.New("its answer has no is_compatible"), correctURL)
	}
	j.Compatible = *got.Compatible
	for _, m := range got.Messages[:min(len(got.Messages), maxReasons)] {
		j.Reasons = append(j.Reasons, m[:min(len(m), maxReason)])
	}
	return nil
}
