"""Certificates: accepted by members, for the hosts they name and for no others."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import stat
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification

from commonweal.errors import InputError, StorageError
from commonweal.flower.starting.certificates import make_certificates

HOSTS = ["federation.example.org", "localhost", "127.0.0.1", "::1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls") / "certificates"
    make_certificates(folder, HOSTS)
    return folder


def certificate(folder, name):
    return x509.load_pem_x509_certificate((folder / name).read_bytes())


def handshake(folder, host, authority=None):
    """Whether a client that trusts the authority talks to the server under this name."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    client = ssl.create_default_context(cafile=(authority or folder) / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            try:
                with server.wrap_socket(connection, server_side=True) as secure:
                    secure.sendall(b"hello")
            except (ssl.SSLError, OSError):
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listening.getsockname()) as plain,
                client.wrap_socket(plain, server_hostname=host) as secure,
            ):
                return secure.recv(5) == b"hello"
        finally:
            thread.join()


@pytest.mark.parametrize("host", HOSTS)
def test_members_accept_it_for_every_host(folder, host):
    assert handshake(folder, host)


@pytest.mark.parametrize("host", ["example.org", "127.0.0.2", "x.federation.example.org"])
def test_nobody_accepts_it_for_another_host(folder, host):
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(folder, host)


def test_another_authority_is_not_trusted(folder, tmp_path):
    make_certificates(tmp_path / "other", HOSTS)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(folder, "localhost", authority=tmp_path / "other")


@pytest.mark.parametrize("host", HOSTS)
def test_an_independent_verifier_agrees(folder, host):
    store = verification.Store([certificate(folder, "ca.pem")])
    try:
        subject = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        subject = x509.DNSName(host)
    chain = verification.PolicyBuilder().store(store).build_server_verifier(subject).verify(
        certificate(folder, "server.pem"), []
    )  # fmt: skip
    assert len(chain) == 2


def test_the_certificate_authority_cannot_sign_again(folder):
    """Its key is in no file."""
    assert sorted(path.name for path in folder.iterdir()) == ["ca.pem", "server.key", "server.pem"]
    key = certificate(folder, "ca.pem").public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key != certificate(folder, "server.pem").public_key()
    assert (
        certificate(folder, "ca.pem").extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    )


def test_only_the_owner_can_read_the_servers_key(folder):
    assert stat.S_IMODE((folder / "server.key").stat().st_mode) == 0o600


def test_how_long_they_are_valid(tmp_path):
    make_certificates(tmp_path / "c", ["localhost"], days=7)
    for name in ("ca.pem", "server.pem"):
        one = certificate(tmp_path / "c", name)
        assert one.not_valid_after_utc - one.not_valid_before_utc == datetime.timedelta(days=7)
        assert one.not_valid_before_utc < datetime.datetime.now(datetime.UTC) < one.not_valid_after_utc


@pytest.mark.parametrize(
    "host",
    ["", " ", "https://example.org", "example.org:8000", "exa mple", "-x.org", "a..b", "ü.org", "256.1.1.1", "a" * 64,
     "[::1]", "*.example.org", "x.org\n", ".".join(["a" * 60] * 5)],
)  # fmt: skip
def test_invalid_hosts(tmp_path, host):
    with pytest.raises(InputError, match=r"A host must be a name or an IP address, got .*\. Write it without"):
        make_certificates(tmp_path / "c", ["localhost", host])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("days", [0, -1, 3651, 10**9])
def test_invalid_periods(tmp_path, days):
    with pytest.raises(InputError, match="valid for 1 to 3650 days, got "):
        make_certificates(tmp_path / "c", ["localhost"], days)
    assert not list(tmp_path.iterdir())


def test_no_host_at_all(tmp_path):
    with pytest.raises(InputError, match="at least one host, got none"):
        make_certificates(tmp_path / "c", [])


def test_certificates_are_never_overwritten(folder, tmp_path):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError, match=r"must be new, but .* exists"):
        make_certificates(folder, HOSTS)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="must be new"):
        make_certificates(tmp_path / "link", HOSTS)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"Cannot create .*: not a directory"):
        make_certificates(tmp_path / "file" / "c", HOSTS)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
