package schemaregistry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// comparing is a registry with a version of a subject, which answers each question of compatibility by its address.
func comparing(t *testing.T, latest string, compare func(path, body string) (status int, answer string)) *Client {
	return asking(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", registryJSON)
		status, answer := http.StatusOK, latest
		switch {
		case r.Method == http.MethodPost:
			if r.Header.Get("Content-Type") != registryJSON { // as Confluent's answers
				status = http.StatusUnsupportedMediaType
				break
			}
			body, _ := io.ReadAll(r.Body)
			status, answer = compare(r.URL.EscapedPath()+"?"+r.URL.RawQuery, string(body))
		case strings.HasPrefix(r.URL.Path, "/subjects/common/"):
			answer = `{"id":1,"version":2,"schema":"{\"type\":\"enum\",\"name\":\"Kind\",\"symbols\":[\"A\"]}"}`
		case latest == "":
			status, answer = http.StatusNotFound, `{"error_code":40401}`
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, answer)
	})
}

const registered = `{"id":7,"version":3,"schema":"\"int\""}`

func TestPropose(t *testing.T) {
	proposal := Proposal{Subject: "a/b-value", Type: "AVRO", Text: `"long"`}
	const path = "/compatibility/subjects/a%2Fb-value/versions"
	for name, c := range map[string]struct {
		latest string
		each   map[string]string // answers, by status and address
		want   Judgement
		err    string
	}{
		"a new subject": {want: Judgement{New: true, Compatible: true}},
		"compatible": {
			latest: registered, each: map[string]string{"200 " + path: `{"is_compatible":true}`},
			want: Judgement{Compatible: true},
		},
		"not compatible": {
			latest: registered,
			each:   map[string]string{"200 " + path: `{"is_compatible":false,"messages":["TYPE_MISMATCH"]}`},
			want:   Judgement{Reasons: []string{"TYPE_MISMATCH"}},
		},
		"no valid schema": {
			latest: registered, each: map[string]string{"422 " + path: `{"error_code":42201}`},
			want: Judgement{Reasons: []string{"the registry takes it for no valid schema"}},
		},
		"compares with the latest only": {
			latest: registered,
			each: map[string]string{
				"404 " + path: `{"error_code":404}`, "200 " + path + "/latest": `{"is_compatible":true}`,
			},
			want: Judgement{Compatible: true, Latest: true},
		},
		"has another method there": {
			latest: registered,
			each:   map[string]string{"405 " + path: ``, "200 " + path + "/latest": `{"is_compatible":false}`},
			want:   Judgement{Latest: true},
		},
		"removed meanwhile": {
			latest: registered, each: map[string]string{"404 " + path: `{"error_code":40401}`},
			want: Judgement{New: true, Compatible: true},
		},
		"compares nothing": {
			latest: registered, each: map[string]string{"404 " + path: `{}`, "404 " + path + "/latest": `{}`},
			err: "it compares no schemas",
		},
		"no answer": {
			latest: registered, each: map[string]string{"200 " + path: `{"compatible":true}`},
			err: "has no is_compatible",
		},
		"too long an answer": {
			latest: registered,
			each:   map[string]string{"200 " + path: `{"messages":["` + strings.Repeat("x", maxAnswer) + `"]}`},
			err:    "its answer is longer than",
		},
		"no right": {latest: registered, each: map[string]string{"403 " + path: ``}, err: "403 Forbidden"},
		"a crash":  {latest: registered, each: map[string]string{"500 " + path: ``}, err: "it answers 500"},
	} {
		t.Run(name, func(t *testing.T) {
			client := comparing(t, c.latest, func(path, body string) (int, string) {
				require.JSONEq(t, `{"schemaType":"AVRO","schema":"\"long\""}`, body)
				for key, answer := range c.each {
					status := 0
					if _, err := fmt.Sscan(key, &status); err == nil && key[4:]+"?verbose=true" == path {
						return status, answer
					}
				}
				return http.StatusTeapot, ""
			})
			got, err := client.Propose(t.Context(), &proposal)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorAs(t, err, new(*Error))
				return
			}
			require.NoError(t, err)
			require.NotNil(t, got.Encoder)
			got.Encoder = nil
			require.Equal(t, c.want, *got)
		})
	}
}

// Sentences of a registry are bounded: it may have one for each member of each version.
func TestProposeBoundsSentences(t *testing.T) {
	many, err := json.Marshal(map[string]any{
		"is_compatible": false, "messages": strings.Split(strings.Repeat(strings.Repeat("x", 600)+" ", 100), " "),
	})
	require.NoError(t, err)
	c := comparing(t, registered, func(string, string) (int, string) { return http.StatusOK, string(many) })
	got, err := c.Propose(t.Context(), &Proposal{Subject: "s", Type: "AVRO", Text: `"int"`})
	require.NoError(t, err)
	require.Len(t, got.Reasons, maxReasons)
	require.Len(t, got.Reasons[0], maxReason)
}

// A schema may refer to what the latest version refers to. One that the relay cannot use is a judgement, not an error.
func TestProposeWithReferences(t *testing.T) {
	const latest = `{"id":7,"version":3,"schema":"{}","references":[{"name":"Kind","subject":"common","version":2}]}`
	const record = `{"type":"record","name":"R","fields":[{"name":"kind","type":%q}]}`
	c := comparing(t, latest, func(_, body string) (int, string) {
		var asked content
		require.NoError(t, json.Unmarshal([]byte(body), &asked))
		require.Equal(t, []reference{{Name: "Kind", Subject: "common", Version: 2}}, asked.References)
		return http.StatusOK, `{"is_compatible":true}`
	})
	got, err := c.Propose(t.Context(), &Proposal{Subject: "s", Type: "AVRO", Text: fmt.Sprintf(record, "Kind")})
	require.NoError(t, err)
	require.NoError(t, got.Unusable)
	encoded, err := got.Encoder.Append(nil, nil, []byte(`{"kind":"A"}`))
	require.NoError(t, err)
	require.Equal(t, []byte{0}, encoded)

	got, err = c.Propose(t.Context(), &Proposal{Subject: "s", Type: "AVRO", Text: fmt.Sprintf(record, "Other")})
	require.NoError(t, err)
	require.Error(t, got.Unusable)
	require.Nil(t, got.Encoder)

	away := &Client{URL: "https://registry", HTTP: &http.Client{Transport: &standIn{away: true}}}
	_, err = away.Propose(t.Context(), &Proposal{Subject: "s", Type: "AVRO", Text: `"int"`})
	var e *Error
	require.True(t, errors.As(err, &e))
	require.True(t, e.Passes)
}
