package schemaregistry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// maxAnswer bounds an answer, which has the text of the schema. A registry stores schemas in Kafka records, which
	// are rarely allowed to be longer than 1 MiB, and JSON may double that.
	maxAnswer = 8 << 20
	// mediaType is the API's own; accept also takes plain JSON.
	mediaType = "application/vnd.schemaregistry.v1+json"
	accept    = mediaType + ", application/json"

	codeNoSubject = 40401
	codeNoVersion = 40402
)

// Client asks a registry.
type Client struct {
	URL       string // of the API, without a login
	Authorize func(context.Context, *http.Request) error
	HTTP      *http.Client // nil: http.DefaultClient; redirects are not followed
}

// answer is what a registry says of a schema.
type answer struct {
	ID    int32
	State router.SchemaAnswer
}

// reply is an answer with the schema itself.
type reply struct {
	answer
	content content
}

// content is a schema itself, as the registry's API has it.
type content struct {
	Type       string      `json:"schemaType"` // AVRO, JSON or PROTOBUF
	Text       string      `json:"schema"`
	References []reference `json:"references,omitempty"`
}

// reference is a version that a schema refers to by a name.
type reference struct {
	Name    string               `json:"name"`
	Subject string               `json:"subject"`
	Version router.SchemaVersion `json:"version"`
}

// lookup asks once. The error is an *Error.
func (c *Client) lookup(ctx context.Context, need router.UnresolvedSchema) (reply, error) {
	resp, err := c.do(ctx, http.MethodGet, "/subjects/"+url.PathEscape(need.Subject)+"/versions/"+
		need.Version.String(), http.NoBody)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return c.refused(resp)
	}
	return c.read(ctx, resp, need)
}

// do sends a request. The answer's body is the caller's to close. The error is an *Error.
func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.URL, "/")+path, body)
	if err != nil {
		return nil, c.failed(false, errors.New("its address is not one"), correctURL)
	}
	req.Header.Set("Accept", accept)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", mediaType)
	}
	if c.Authorize != nil {
		if err := c.Authorize(ctx, req); err != nil {
			return nil, c.unauthorized(err)
		}
	}
	client := http.Client{}
	if c.HTTP != nil {
		client = *c.HTTP
	}
	// A redirect may lead to another host, which the login is not for.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return resp, nil
}

// decode reads an answer's body. malformed: it is not JSON of this form, for which the caller has the words.
func (c *Client) decode(ctx context.Context, resp *http.Response, into any) (malformed bool, err error) {
	body := &io.LimitedReader{R: resp.Body, N: maxAnswer}
	err = json.NewDecoder(body).Decode(into)
	switch {
	case body.N <= 0:
		return false, c.failed(false, fmt.Errorf("its answer is longer than %d bytes", maxAnswer), correctURL)
	case err != nil && (ctx.Err() != nil || fault.Connection(err) != ""):
		return false, c.unreachable(ctx, err)
	}
	return err != nil, nil
}

// read takes the id out of an answer.
func (c *Client) read(ctx context.Context, resp *http.Response, need router.UnresolvedSchema) (reply, error) {
	var got struct {
		ID      *int64 `json:"id"`
		Version *int64 `json:"version"`
		content
	}
	malformed, err := c.decode(ctx, resp, &got)
	switch {
	case err != nil:
		return reply{}, err
	case malformed || got.ID == nil || got.Version == nil:
		return reply{}, c.failed(false, errors.New("its answer is not a version of a subject"), correctURL)
	case *got.ID < 0 || *got.ID > 1<<31-1:
		return reply{}, c.failed(false, fmt.Errorf("its answer has the id %d, which no frame can hold", *got.ID),
			correctURL)
	case need.Version != router.LatestSchema && *got.Version != int64(need.Version):
		return reply{}, c.failed(false, fmt.Errorf("asked for version %s of subject %q, it answers with version %d",
			need.Version, need.Subject, *got.Version), correctURL)
	}
	got.Type = cmp.Or(got.Type, "AVRO")
	return reply{answer{ID: int32(*got.ID), State: router.SchemaKnown}, got.content}, nil
}

// refused judges an answer by its status and by the registry's code. The text of the answer is not taken over: it may
// repeat anything.
func (c *Client) refused(resp *http.Response) (reply, error) {
	var got struct {
		Code int `json:"error_code"`
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if strings.HasSuffix(kind, "json") {
		_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&got)
	}
	status := resp.StatusCode
	switch {
	case status == http.StatusNotFound && got.Code == codeNoSubject:
		return reply{answer: answer{State: router.SchemaNoSubject}}, nil
	case status == http.StatusNotFound && got.Code == codeNoVersion:
		return reply{answer: answer{State: router.SchemaNoVersion}}, nil
	}
	text := strings.TrimSpace(fmt.Sprintf("it answers %d %s", status, http.StatusText(status)))
	if got.Code != 0 && got.Code != status {
		text += fmt.Sprintf(" (code %d)", got.Code)
	}
	cause := errors.New(text)
	switch {
	case status == http.StatusUnauthorized:
		return reply{}, c.failed(false, cause, "Correct router.registry.username and router.registry.password. "+
			"A secret in a file is read again for each request.")
	case status == http.StatusForbidden:
		return reply{}, c.failed(false, cause, "Give the user of router.registry the right to read this subject.")
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return reply{}, c.failed(true, cause, lookAtRegistry)
	case status >= 300 && status < 400:
		return reply{}, c.failed(false, cause, "Name the address that it redirects to in router.registry.url; "+
			"redirects are not followed, because a login goes to no other host.")
	case status == http.StatusNotFound:
		return reply{}, c.failed(false, cause, correctURL)
	}
	return reply{}, c.failed(false, cause, "Compare router.registry with what the registry expects.")
}

const (
	correctURL = "Correct router.registry.url: it is the address of an API that is compatible with Confluent's " +
		"registry, such as https://registry.example.com, with Apicurio …/apis/ccompat/v7."
	lookAtRegistry = "Look at the registry, and at the network between it and this host. It is asked again " +
		"automatically."
)

func (c *Client) unauthorized(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	return c.failed(false, err, "Make the login of router.registry readable.")
}

func (c *Client) unreachable(ctx context.Context, err error) *Error {
	what := fault.Connection(err)
	switch {
	case ctx.Err() != nil:
		what = "does not answer"
	case what == "":
		var malformed *url.Error
		if errors.As(err, &malformed) {
			err = malformed.Err
		}
		what = "cannot be asked: " + fault.OneLine(err).Error()
	}
	return c.failed(true, errors.New("it "+what), lookAtRegistry)
}

func (c *Client) failed(passes bool, err error, next string) *Error {
	return &Error{Passes: passes, Object: "schema registry " + c.URL, Err: err, Next: next}
}

// Error is why a registry gave no answer about a schema, or one that cannot be used.
type Error struct {
	Schema bool   // the registry has answered: the cause is this schema
	Passes bool   // it often ends without an operator
	Object string // the registry
	Err    error
	Next   string
}

// Error is the object and the cause.
func (e *Error) Error() string { return e.Object + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fault is the error of a command that cannot go on.
func (e *Error) Fault() *fault.Error {
	kind := fault.Operator
	if e.Passes {
		kind = fault.Retry
	}
	return &fault.Error{Kind: kind, Object: e.Object, Err: e.Err, Next: e.Next}
}
