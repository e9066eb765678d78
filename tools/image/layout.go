package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Media types of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// The files of the image.
const (
	programFile = "cdc-outbox"
	caFile      = "etc/ssl/certs/ca-certificates.crt"
)

type about struct {
	version, revision string
	created           time.Time
	ca                []byte
}

// descriptor names a blob.
type descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`
	Platform  *platform `json:"platform,omitempty"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

type index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type configuration struct {
	platform
	Created time.Time `json:"created"`
	Config  process   `json:"config"`
	RootFS  struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// process is what a container engine starts.
type process struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Env          []string            `json:"Env"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	Labels       map[string]string   `json:"Labels"`
}

// processOf says the same as deploy/Dockerfile, which a test compares.
func processOf(a about) process {
	const label = "org.opencontainers.image."
	return process{
		User: "65532:65532", ExposedPorts: map[string]struct{}{"9464/tcp": {}},
		Env: []string{"CDC_OUTBOX_HTTP_LISTEN=:9464"}, Entrypoint: []string{"/" + programFile}, Cmd: []string{"run"},
		Labels: map[string]string{
			label + "title": "cdc-outbox", label + "description": "Relay from a Postgres outbox table to Kafka",
			label + "source": "https://github.com/cdc-outbox/cdc-outbox", label + "licenses": "Apache-2.0",
			label + "version": a.version, label + "revision": a.revision,
		},
	}
}

// write makes the layout: an index over one image for each platform.
func write(dir string, a about, platforms []string, binaries map[string][]byte) error {
	if len(platforms) == 0 {
		return fmt.Errorf("no platform is named")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	b := blobs{filepath.Join(dir, "blobs", "sha256")}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	all := index{SchemaVersion: 2, MediaType: typeIndex}
	for _, name := range platforms {
		d, err := b.image(a, name, binaries[name])
		if err != nil {
			return err
		}
		all.Manifests = append(all.Manifests, d)
	}
	// One entry for all platforms, which is what a copy to a registry should find.
	d, err := b.json(typeIndex, all)
	if err != nil {
		return err
	}
	top, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{d}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "index.json"), top, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
}

// blobs is the directory of the contents, by their hash.
type blobs struct{ dir string }

func (b blobs) put(mediaType string, content []byte) (descriptor, error) {
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	d := descriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: int64(len(content))}
	return d, os.WriteFile(filepath.Join(b.dir, name), content, 0o644)
}

func (b blobs) json(mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return b.put(mediaType, content)
}

func (b blobs) image(a about, name string, binary []byte) (descriptor, error) {
	layer, packed, err := layerOf(a, binary)
	if err != nil {
		return descriptor{}, err
	}
	files, err := b.put(typeLayer, packed)
	if err != nil {
		return descriptor{}, err
	}
	system, architecture, _ := strings.Cut(name, "/")
	c := configuration{platform: platform{system, architecture}, Created: a.created, Config: processOf(a)}
	sum := sha256.Sum256(layer)
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{"sha256:" + hex.EncodeToString(sum[:])}
	config, err := b.json(typeConfig, c)
	if err != nil {
		return descriptor{}, err
	}
	d, err := b.json(typeManifest, manifest{
		SchemaVersion: 2, MediaType: typeManifest, Config: config, Layers: []descriptor{files},
	})
	d.Platform = &c.platform
	return d, err
}

// layerOf is the only layer, plain and packed.
func layerOf(a about, binary []byte) (plain, packed []byte, err error) {
	var archive, compressed bytes.Buffer
	w := tar.NewWriter(&archive)
	add := func(name string, kind byte, mode int64, content []byte) {
		if err == nil {
			err = w.WriteHeader(&tar.Header{
				Typeflag: kind, Name: name, Mode: mode, Size: int64(len(content)), ModTime: a.created,
			})
		}
		if err == nil {
			_, err = w.Write(content)
		}
	}
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		add(dir, tar.TypeDir, 0o755, nil)
	}
	add(caFile, tar.TypeReg, 0o644, a.ca)
	add(programFile, tar.TypeReg, 0o755, binary)
	if err != nil {
		return nil, nil, err
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	z := gzip.NewWriter(&compressed)
	if _, err := z.Write(archive.Bytes()); err != nil {
		return nil, nil, err
	}
	if err := z.Close(); err != nil {
		return nil, nil, err
	}
	return archive.Bytes(), compressed.Bytes(), nil
}
