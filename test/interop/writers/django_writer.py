"""Writes with django-outbox-pattern, in two steps: python django_writer.py DSN create, then write."""

import sys
from urllib.parse import urlsplit

import django
from django.conf import settings

dsn = urlsplit(sys.argv[1])
settings.configure(
    INSTALLED_APPS=["django_outbox_pattern"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "HOST": dsn.hostname, "PORT": dsn.port, "USER": dsn.username,
        "PASSWORD": dsn.password or "", "NAME": dsn.path[1:],
    }},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True,
)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, models  # noqa: E402
from django_outbox_pattern.decorators import Config, publish  # noqa: E402


@publish([Config(destination="/topic/orders", version="v1")])
class Order(models.Model):
    name = models.CharField(max_length=100)

    class Meta:
        app_label = "shop"


if sys.argv[2] == "create":
    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        editor.create_model(Order)
else:
    Order(id=7, name="x").save()
