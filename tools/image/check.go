package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
)

// image is one platform's image as it was read back.
type image struct {
	config configuration
	files  map[string]file // by name
}

type file struct {
	mode    int64
	content []byte
}

// read follows the layout from its index, and compares each content with its size and hash.
func read(dir string) (map[string]image, error) {
	b := blobs{filepath.Join(dir, "blobs", "sha256")}
	var top, all index
	content, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &top); err != nil {
		return nil, err
	}
	if len(top.Manifests) != 1 {
		return nil, fmt.Errorf("index.json has %d entries", len(top.Manifests))
	}
	if err := b.value(top.Manifests[0], typeIndex, &all); err != nil {
		return nil, err
	}
	images := map[string]image{}
	for _, d := range all.Manifests {
		i, err := b.imageOf(d)
		if err != nil {
			return nil, err
		}
		images[d.Platform.OS+"/"+d.Platform.Architecture] = i
	}
	return images, nil
}

func (b blobs) get(d descriptor, mediaType string) ([]byte, error) {
	name := strings.TrimPrefix(d.Digest, "sha256:")
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	if hex.EncodeToString(sum[:]) != name || int64(len(content)) != d.Size || d.MediaType != mediaType {
		return nil, fmt.Errorf("%s is not what its descriptor says", d.Digest)
	}
	return content, nil
}

func (b blobs) value(d descriptor, mediaType string, into any) error {
	content, err := b.get(d, mediaType)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

func (b blobs) imageOf(d descriptor) (image, error) {
	i := image{files: map[string]file{}}
	var m manifest
	if err := b.value(d, typeManifest, &m); err != nil {
		return i, err
	}
	if err := b.value(m.Config, typeConfig, &i.config); err != nil {
		return i, err
	}
	for n, layer := range m.Layers {
		packed, err := b.get(layer, typeLayer)
		if err != nil {
			return i, err
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return i, err
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			return i, err
		}
		sum := sha256.Sum256(plain)
		if i.config.RootFS.DiffIDs[n] != "sha256:"+hex.EncodeToString(sum[:]) {
			return i, errors.New("a layer is not what the configuration names")
		}
		if err := i.add(plain); err != nil {
			return i, err
		}
	}
	return i, nil
}

func (i image) add(archive []byte) error {
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			i.files[h.Name] = file{h.Mode, content}
		}
	}
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// check compares the images with what they were to be.
func check(images map[string]image, a about, binaries map[string][]byte) error {
	if len(images) != len(binaries) {
		return fmt.Errorf("%d platforms instead of %d", len(images), len(binaries))
	}
	for name, i := range images {
		system, architecture, _ := strings.Cut(name, "/")
		program, ca := i.files[programFile], i.files[caFile]
		switch {
		case i.config.platform != (platform{system, architecture}):
			return fmt.Errorf("%s: the configuration is for %v", name, i.config.platform)
		case !reflect.DeepEqual(i.config.Config, processOf(a)):
			return fmt.Errorf("%s: the configuration is %+v", name, i.config.Config)
		case len(i.files) != 2 || !bytes.Equal(program.content, binaries[name]) || !bytes.Equal(ca.content, a.ca):
			return fmt.Errorf("%s: the files are not the program and the certificates", name)
		case program.mode != 0o755 || ca.mode != 0o644:
			return fmt.Errorf("%s: the files have the modes %o and %o", name, program.mode, ca.mode)
		case !bytes.Contains(ca.content, []byte("-----BEGIN CERTIFICATE-----")):
			return fmt.Errorf("%s: there is no certificate", name)
		}
		if err := static(program.content, machines[architecture]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// static reports whether the program runs on the machine, without a loader or libraries.
func static(program []byte, machine elf.Machine) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	if f.Machine != machine {
		return fmt.Errorf("the program is for %v", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("the program needs a loader, which the image does not have")
		}
	}
	return nil
}

// started runs the program as a container engine would: as its user, with no files but the image's.
func started(i image, args ...string) (string, error) {
	root, err := os.MkdirTemp("", "image")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(root)
	if err := os.Chmod(root, 0o755); err != nil {
		return "", err
	}
	for name, f := range i.files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, f.content, os.FileMode(f.mode)); err != nil {
			return "", err
		}
	}
	var uid, gid uint32
	if _, err := fmt.Sscanf(i.config.Config.User, "%d:%d", &uid, &gid); err != nil {
		return "", err
	}
	cmd := exec.Command(i.config.Config.Entrypoint[0], args...)
	cmd.Dir, cmd.Env = "/", i.config.Config.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("the program does not start: %w\n%s", err, out)
	}
	return string(out), nil
}
