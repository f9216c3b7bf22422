"""Settings come from the environment, with defaults, and a bad one is named."""

import pytest

from mpcsim.ids import INSTITUTION, OPERATOR
from node.process.settings import Settings, SettingsError


def test_defaults():
    settings = Settings.from_environment({})
    assert settings == Settings()
    assert settings.app_port == 9091
    assert settings.waas_api_url is None


def test_everything_set():
    settings = Settings.from_environment(
        {
            "APP_PORT": "8000",
            "APP_HOST": "0.0.0.0",
            "WAAS_API_URL": " https://gateway.example:444/base/ ",
            "BUILD_TYPE": "release",
            "GATEWAY_TIMEOUT_S": "2.5",
            "WORKERS": "3",
            "METRICS_PORT": "",
            "PASSWORD_THREADS": "256",
            "LOG_LEVEL": "debug",
            "LOG_FORMAT": "Json",
            "MPC_NODE_KEYS": f"operator={64 * '1'},institution={64 * 'a'}",
            "UNRELATED": "x",
        }
    )
    assert settings == Settings(
        waas_api_url="https://gateway.example:444/base",
        app_port=8000,
        app_host="0.0.0.0",
        build_type="release",
        gateway_timeout_s=2.5,
        workers=3,
        password_threads=256,
        log_level="DEBUG",
        log_format="json",
        mpc_node_keys={OPERATOR: b"\x11" * 32, INSTITUTION: b"\xaa" * 32},
    )


def test_metrics_are_of_one_process():
    assert Settings.from_environment({"METRICS_PORT": "9100"}).metrics_port == 9100
    with pytest.raises(SettingsError, match=r"^METRICS_PORT needs WORKERS=1: "):
        Settings.from_environment({"METRICS_PORT": "9100", "WORKERS": "2"})


def test_empty_is_unset():
    names = ("APP_PORT", "WAAS_API_URL", "WORKERS", "LOG_LEVEL", "APP_HOST", "GATEWAY_TIMEOUT_S")
    assert Settings.from_environment(dict.fromkeys(names, "")) == Settings()


AT = "gateway.example"
IMPOSSIBLE = {
    "APP_PORT": ["http", "0", "65536"],
    "WAAS_API_URL": [
        *(AT, f"ftp://{AT}", "http://", f"http://key:secret@{AT}", f"http://{AT}?x=y"),
        f"http://{AT}:99999",
    ],
    "GATEWAY_TIMEOUT_S": ["0", "nan", "601"],
    "WORKERS": ["0", "many"],
    "METRICS_PORT": ["0", "prometheus"],
    "PASSWORD_THREADS": ["0", "257", "all"],
    "OT_EXTENSION_K": ["0", "3", "k"],
    "LOG_LEVEL": ["loud"],
    "LOG_FORMAT": ["xml"],
    "MPC_NODE_KEYS": [f"operator={64 * '1'}"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in IMPOSSIBLE.items() for value in values]
)
def test_impossible_values(name, value):
    with pytest.raises(SettingsError, match=f"^{name} must be ") as caught:
        Settings.from_environment({name: value})
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
